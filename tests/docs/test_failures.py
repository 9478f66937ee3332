"""The page of known failures is what signatures.yaml says; ``python -m tests.docs.test_failures`` writes it anew."""

from __future__ import annotations

from nemo_launch.signatures import known
from tests.docs.page import ROOT

PAGE = ROOT / "docs" / "failures.md"
_START = "<!-- from here on written from nemo_launch/signatures/signatures.yaml -->\n"


def written() -> str:
    """What stands below the mark."""
    parts = []
    for signature in known():
        remedies = "".join(f"- {remedy}\n" for remedy in signature.remedies)
        means = signature.means[0].upper() + signature.means[1:]
        parts.append(f"\n## {signature.name}\n\n{means}.\n\n{remedies}")
    return "".join(parts)


def test_the_page_is_what_the_file_says() -> None:
    assert PAGE.read_text().split(_START)[1] == written()


if __name__ == "__main__":
    head = PAGE.read_text().split(_START)[0]
    PAGE.write_text(head + _START + written())
