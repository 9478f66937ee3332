"""Functions and classes as recipes have them."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Optional, Union

if TYPE_CHECKING:
    from nowhere import Unknown  # type: ignore[import-not-found]


class Colour(enum.Enum):
    """An enum."""

    RED = 1
    BLUE = 2


@dataclass
class Optimizer:
    """A dataclass with defaults."""

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.95)
    name: str = "adam"
    tags: list[str] = field(default_factory=list)
    schedule: Any = None


@dataclass
class Fused(Optimizer):
    """A subclass."""

    fused: bool = True


@dataclass
class Model:
    """A dataclass with a required field."""

    layers: int
    act: Literal["gelu", "relu"] = "relu"
    hidden: Optional[int] = None  # noqa: UP045 - as many users write it


class Plain:
    """Neither dataclass nor base class of one."""

    def __init__(self, size: int, path: Path | None = None) -> None:
        self.size, self.path = size, path


def train(  # type: ignore[no-untyped-def]
    model: Model,
    optimizer: Optimizer = None,  # type: ignore[assignment]
    max_steps: int = 10,
    *,
    data: Path = Path("data"),
    colour: Colour = Colour.RED,
    sizes: Sequence[int] = (),
    by_name: dict[str, int] | None = None,
    loss: Callable[..., float] | None = None,
    both: Union[int, str] = 0,  # noqa: UP007
    unknown: Unknown = None,
    free=None,
    seen={"a": 1},  # noqa: B006
    rate=1,
    label="x",
) -> None:
    """A function with everything."""


def make_model(layers: int) -> Model:
    """A factory."""
    return Model(layers)


def anything(**kwargs: Any) -> Any:
    """Takes any name."""


def only_by_position(size: int, /, *rest: int) -> None:
    """Positional arguments."""


async def train_later() -> None:
    """Nothing that runs by being called."""


def train_in_steps() -> Any:
    """Neither."""
    yield 1
