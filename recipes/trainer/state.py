"""Model and optimizer as a checkpoint has them. For the nodes: needs torch."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from trainer.checkpoints import Restored
from trainer.config import AdamW


class TrainerState:
    """A model and its optimizer."""

    def __init__(self, model: Any, config: AdamW) -> None:
        decayed = [weight for weight in model.parameters() if weight.requires_grad and weight.ndim > 1]
        others = [weight for weight in model.parameters() if weight.requires_grad and weight.ndim <= 1]
        groups = [{"params": decayed, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
        self.model = model
        self.optimizer = torch.optim.AdamW(
            [group for group in groups if group["params"]], lr=config.lr, betas=tuple(config.betas), eps=config.eps
        )

    def step(self, learning_rate: float) -> None:
        """Move the weights, and forget the gradients."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.step()
        self.optimizer.zero_grad()

    def tensors(self) -> dict[str, Any]:
        """By the names that the plain model has, whatever shares it over the ranks."""
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def load(self, restored: Restored) -> None:
        """Take over what a checkpoint has; only the optimizer's settings stay those of this run."""
        settings = [
            {name: group[name] for name in ("weight_decay", "betas", "eps")} for group in self.optimizer.param_groups
        ]
        tensors = self.tensors()
        restored.load(tensors)
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=tensors["model"],
            optim_state_dict=tensors["optimizer"],
        )
        for group, own in zip(self.optimizer.param_groups, settings, strict=True):
            group.update(own)
