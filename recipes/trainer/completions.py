"""Examples of supervised fine-tuning as tokens, with labels for the completions alone. For the nodes: needs torch."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from trainer.datasets import Completions
from trainer.ranks import Mistake
from trainer.samples import IGNORED
from trainer.tokens import load_tokenizer

#: Stretches of an example, in order: the text, and whether the model is to learn it.
Parts = list[tuple[str, bool]]


class Examples:
    """Tokens and labels of every example, padded only beside longer ones."""

    def __init__(self, rows: list[tuple[list[int], list[int]]], tokenizer: Any) -> None:
        self._rows, self.tokenizer, self.vocab_size = rows, tokenizer, len(tokenizer)
        self._targets = [sum(label != IGNORED for label in labels) for _, labels in rows]
        self.fingerprint = f"{len(rows)} examples {zlib.crc32(repr(rows).encode()):08x}"

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, indices: Sequence[int]) -> tuple[Any, Any]:
        # Padding stands behind the text, where a causal model does not look; what it predicts there is ignored.
        rows = [self._rows[index] for index in indices]
        length = max(len(ids) for ids, _ in rows)
        tokens = torch.zeros(len(rows), length, dtype=torch.int64)
        labels = torch.full((len(rows), length), IGNORED)
        for number, (ids, wanted) in enumerate(rows):
            tokens[number, : len(ids)] = torch.tensor(ids)
            labels[number, : len(ids)] = torch.tensor(wanted)
        return tokens, labels

    def targets(self, indices: Sequence[int]) -> int:
        return sum(self._targets[index] for index in indices)

    def tokens(self, indices: Sequence[int]) -> int:
        return sum(len(self._rows[index][0]) for index in indices)


def load(config: Completions, paths: Iterable[Path]) -> Examples:
    """Read, tokenize and label all examples; every line that is wrong is named."""
    tokenizer = load_tokenizer(config.tokenizer)
    if config.chat_template:
        tokenizer.chat_template = Path(config.chat_template).read_text(encoding="utf-8")
    rows, wrong, longer = [], [], 0
    for where, line in _lines(paths):
        try:
            ids, learnt = _encode(_parts(line, tokenizer), tokenizer)
        except _Wrong as problem:
            wrong.append(f"{where}: {problem}")
            continue
        # A token's label is the one after it.
        labels = [token if learn else IGNORED for token, learn in zip(ids[1:], learnt[1:], strict=True)]
        ids, labels = ids[:-1][: config.seq_len], labels[: config.seq_len]
        if any(label != IGNORED for label in labels):
            rows.append((ids, labels))
        else:
            longer += 1
    if wrong:
        more = f"; and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise Mistake(f"dataset.path: {'; '.join(wrong[:5])}{more}.")
    if not rows:
        left_out = f" ({longer} were left out: nothing of their completion is within dataset.seq_len)" if longer else ""
        raise Mistake(f"dataset.path {config.path} holds no examples{left_out}.")
    return Examples(rows, tokenizer)


class _Wrong(Exception):
    """What is wrong with a line."""


def _lines(paths: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    for path in paths:
        with path.open("rb") as lines:
            yield from ((f"{path}:{number}", line) for number, line in enumerate(lines, 1) if line.strip())


def _parts(line: bytes, tokenizer: Any) -> Parts:
    try:
        example = json.loads(line)
    except ValueError:
        raise _Wrong("not JSON") from None
    if isinstance(example, dict) and isinstance(example.get("messages"), list):
        return _of_messages(example["messages"], tokenizer)
    example = example if isinstance(example, dict) else {}
    prompt, completion = example.get("prompt"), example.get("completion")
    if not (isinstance(prompt, str) and isinstance(completion, str)):
        raise _Wrong("neither a prompt and a completion (text) nor messages (a list)")
    first = str(getattr(tokenizer, "bos_token", None) or "")
    return [(first + prompt, False), (completion + str(tokenizer.eos_token or ""), True)]


def _of_messages(messages: list[Any], tokenizer: Any) -> Parts:
    for message in messages:
        if not (isinstance(message, dict) and {"role", "content"} <= message.keys()):
            raise _Wrong("a message without role and content")
    if not tokenizer.chat_template:
        raise _Wrong("messages, but the tokenizer has no chat template; name one as dataset.chat_template")
    parts: Parts = []
    done = ""
    for number, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        try:
            before = tokenizer.apply_chat_template(messages[:number], tokenize=False, add_generation_prompt=True)
            after = tokenizer.apply_chat_template(messages[: number + 1], tokenize=False)
        except Exception as error:  # templates raise what they like
            raise _Wrong(f"the chat template refuses it: {error}") from error
        if not (before.startswith(done) and after.startswith(before)):
            raise _Wrong("the chat template rewrites earlier messages, so that completions cannot be told apart")
        parts += [(before[len(done) :], False), (after[len(before) :], True)]
        done = after
    if not parts:
        raise _Wrong("no message of the assistant")
    return parts


def _encode(parts: Parts, tokenizer: Any) -> tuple[list[int], list[bool]]:
    ids: list[int] = []
    learnt: list[bool] = []
    for text, learn in parts:
        piece = tokenizer(text, add_special_tokens=False)["input_ids"]
        ids += piece
        learnt += [learn] * len(piece)
    return ids, learnt
