"""What a training run may be told besides its model and its data: plain dataclasses, filled without torch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

LATEST = "latest"
PROGRESS = "progress.json"


def task_dir() -> Path:
    """The task's own folder, which all nodes see; without a launcher `./out`."""
    return Path(os.environ.get("NEMO_LAUNCH_TASK_DIR") or "out")


def not_positive(owner: object, prefix: str, names: Iterable[str]) -> Iterator[str]:
    """A problem for each field that is no whole number of at least 1 (None is left to the field's default)."""
    for name in names:
        value = getattr(owner, name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            yield f"{prefix}.{name} is {value!r}, but must be a whole number of at least 1"


def not_among(value: object, name: str, choices: Iterable[object]) -> Iterator[str]:
    """A problem if the value is none of the choices."""
    if value not in (known := list(choices)):
        yield f"{name} is {value!r}, but must be one of {', '.join(map(str, known))}"


@dataclass
class StepScheduler:
    """How many steps, of how many sequences, and when something is saved or said."""

    max_steps: int = 60
    """Optimizer steps in all, those before a restore included."""
    checkpoint_interval: int = 20
    """Steps between checkpoints; one more is saved at the end."""
    log_interval: int = 5
    """Steps between lines of the log and of the metrics; the first and the last step are always told."""
    local_batch_size: int = 8
    """Sequences that a rank takes through the model at once."""
    global_batch_size: int | None = None
    """Sequences per step, all ranks together. None: local_batch_size × ranks, as the run's first start had it."""

    def problems(self) -> Iterator[str]:
        names = ("max_steps", "checkpoint_interval", "log_interval", "local_batch_size", "global_batch_size")
        yield from not_positive(self, "step_scheduler", names)


@dataclass
class AdamW:
    """torch.optim.AdamW; weight decay spares biases and norms, as is usual for language models."""

    lr: float = 3e-3
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0
    """Gradients are scaled down to this norm."""

    def problems(self) -> Iterator[str]:
        if not self.lr > 0:
            yield f"optimizer.lr is {self.lr!r}, but must be more than 0"
        if not self.max_grad_norm > 0:
            yield f"optimizer.max_grad_norm is {self.max_grad_norm!r}, but must be more than 0"


@dataclass
class LrScheduler:
    """The learning rate as a function of the step alone."""

    style: str = "constant"
    """After the warm-up: constant, linear or cosine."""
    warmup_steps: int = 0
    """Steps over which it rises linearly to optimizer.lr."""
    decay_steps: int | None = None
    """The step at which it reaches its minimum. None: step_scheduler.max_steps."""
    min_lr_ratio: float = 0.1
    """The minimum, as a part of optimizer.lr."""

    def problems(self) -> Iterator[str]:
        yield from not_among(self.style, "lr_scheduler.style", ("constant", "linear", "cosine"))
        yield from not_positive(self, "lr_scheduler", ["decay_steps"])
        if self.warmup_steps < 0:
            yield f"lr_scheduler.warmup_steps is {self.warmup_steps}, but must not be negative"


@dataclass
class Parallel:
    """How the ranks share the work."""

    strategy: str = "ddp"
    """ddp: every rank holds the whole model. fsdp2: each holds its part (torch.distributed.fsdp.fully_shard)."""
    dtype: str = "float32"
    """What forward and backward compute in: float32 or bfloat16. Weights and optimizer are kept in float32."""
    activation_checkpointing: bool = False
    """Compute each layer's activations again in the backward pass instead of keeping them."""
    timeout_minutes: float = 30.0
    """How long a rank waits for the others before it gives up."""

    def problems(self) -> Iterator[str]:
        yield from not_among(self.strategy, "parallel.strategy", ("ddp", "fsdp2"))
        yield from not_among(self.dtype, "parallel.dtype", ("float32", "bfloat16"))
        if not self.timeout_minutes > 0:
            yield f"parallel.timeout_minutes is {self.timeout_minutes!r}, but must be more than 0"


@dataclass
class Checkpoint:
    """Where checkpoints go, and how many stay."""

    dir: str | None = None
    """A folder that all nodes see. None: `checkpoints` in the task's folder ($NEMO_LAUNCH_TASK_DIR)."""
    keep_last_k: int = 2
    """How many of the newest stay."""

    @property
    def folder(self) -> Path:
        return Path(self.dir) if self.dir else task_dir() / "checkpoints"

    def problems(self) -> Iterator[str]:
        yield from not_positive(self, "checkpoint", ["keep_last_k"])


@dataclass
class RestoreFrom:
    """Which checkpoint to go on from."""

    path: str | None = None
    """A checkpoint, or `…/latest`, which names the newest of a folder. None: start anew."""

    @property
    def newest(self) -> str | None:
        """What an earlier attempt of this very run left ($NEMO_LAUNCH_RESTORE_FROM) is later than any `path`."""
        return os.environ.get("NEMO_LAUNCH_RESTORE_FROM") or self.path

    def problems(self) -> Iterator[str]:
        if self.newest is None:
            return
        folder, what = Path(self.newest), f"restore_from.path {self.newest}"
        if not folder.exists():
            siblings = (path.name for path in folder.parent.glob("step-*")) if folder.parent.is_dir() else ()
            there = f"{folder.parent} has {', '.join(sorted(siblings)) or 'no checkpoints'}"
            yield f"{what} does not exist on {os.uname().nodename}; {there}"
        elif not (folder / PROGRESS).is_file() or not (folder / ".metadata").is_file():
            newest = f"; perhaps {folder / LATEST} is meant" if (folder / LATEST / PROGRESS).is_file() else ""
            yield f"{what} is no checkpoint of this trainer: it holds no {PROGRESS} and .metadata{newest}"


@dataclass
class Metrics:
    """Where the numbers go."""

    path: str | None = None
    """A file of JSON lines. None: `metrics.jsonl` in the task's folder ($NEMO_LAUNCH_TASK_DIR)."""

    @property
    def file(self) -> Path:
        return Path(self.path) if self.path else task_dir() / "metrics.jsonl"

    def problems(self) -> Iterator[str]:
        return iter(())


@dataclass
class Export:
    """The trained model as a Hugging Face checkpoint, which `from_pretrained` loads."""

    enabled: bool = True
    dir: str | None = None
    """None: `model` in the task's folder ($NEMO_LAUNCH_TASK_DIR)."""
    dtype: str | None = None
    """float32, bfloat16 or float16. None: that of the checkpoint that training began with, else float32."""

    @property
    def folder(self) -> Path:
        return Path(self.dir) if self.dir else task_dir() / "model"

    def problems(self) -> Iterator[str]:
        yield from not_among(self.dtype, "export.dtype", (None, "float32", "bfloat16", "float16"))
