"""`train`: what a training recipe calls. The standard library is enough to import it; torch is needed to call it."""

from __future__ import annotations

import signal
import sys
import traceback
from typing import TYPE_CHECKING, Any

from trainer.config import AdamW, Checkpoint, Export, LrScheduler, Metrics, Parallel, RestoreFrom, StepScheduler
from trainer.ranks import Mistake, Rank, fail, leave, paragraph

if TYPE_CHECKING:
    from trainer.datasets import Completions, TextFiles, TextLines
    from trainer.models import Llama, Pretrained


def train(
    model: Llama | Pretrained,
    dataset: TextFiles | TextLines | Completions,
    optimizer: AdamW,
    lr_scheduler: LrScheduler,
    step_scheduler: StepScheduler,
    parallel: Parallel,
    checkpoint: Checkpoint,
    restore_from: RestoreFrom,
    metrics: Metrics,
    export: Export,
    seed: int = 1234,
) -> None:
    """Train a causal language model, as one of the processes that torchrun (or srun) starts; one alone will do.

    A checkpoint is saved every step_scheduler.checkpoint_interval steps, at the end, on SIGUSR1, and whenever the file
    named by $NEMO_LAUNCH_CHECKPOINT_REQUESTED appears or is touched. SIGTERM saves one and ends with exit code 143.
    A mistake of the user (a value, a folder, a checkpoint of another model) is one paragraph per node, exit code 2.
    """
    others: list[Any] = [optimizer, lr_scheduler, step_scheduler, parallel, checkpoint, restore_from, metrics, export]
    # A request may come while torch is being loaded, and would end the process; its file is still there later.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        rank = Rank.of_environment()
        if problems := [problem for part in (model, dataset, *others) for problem in part.problems()]:
            raise Mistake(paragraph(problems))
        try:
            from torch.distributed.fsdp import fully_shard  # noqa: F401  # the newest part of what is needed
            from transformers import AutoModelForCausalLM  # noqa: F401
        except ModuleNotFoundError as missing:
            remedy = "Install what this recipe needs where it runs: pip install torch transformers numpy"
            raise Mistake(f"{sys.executable} has no module {missing.name}. {remedy}.") from missing
        except ImportError as old:
            remedy = "Install newer ones where it runs: pip install -U torch transformers"
            raise Mistake(f"torch or transformers of {sys.executable} is too old: {old}. {remedy}.") from old
        from trainer.run import Run

        code = Run(
            rank,
            model,
            dataset,
            optimizer,
            lr_scheduler,
            step_scheduler,
            parallel,
            checkpoint,
            restore_from,
            metrics,
            export,
            seed,
        ).train()
    except Mistake as mistake:
        fail(str(mistake))
    except Exception:
        # With torch's objects alive Python's own way out may hang, and the other ranks and the launcher would wait.
        traceback.print_exc()
        leave(1)
    if rank.world_size > 1:
        leave(code)
    if code:
        sys.exit(code)
