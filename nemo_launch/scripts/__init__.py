"""A script: where it is found, what runs it, and which code travels with it."""

from nemo_launch.scripts.finding import find
from nemo_launch.scripts.interpreting import how, how_text
from nemo_launch.scripts.placing import place, place_text, with_editable

__all__ = ["find", "how", "how_text", "place", "place_text", "with_editable"]
