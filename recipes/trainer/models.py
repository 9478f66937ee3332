"""The models that recipes name. Built where the training runs; only there is transformers imported."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.config import not_positive


@dataclass
class RopeScaling:
    """How Llama 3.1 stretches its rotary embedding to longer contexts (defaults: those of Llama 3.1)."""

    factor: float = 8.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position_embeddings: int = 8192


@dataclass
class Llama:
    """A Llama with random weights. The defaults are 0.4 M parameters for text as bytes."""

    vocab_size: int = 256
    hidden_size: int = 128
    intermediate_size: int = 352
    num_hidden_layers: int = 2
    num_attention_heads: int = 4
    num_key_value_heads: int | None = None
    """None: as many as attention heads."""
    max_position_embeddings: int = 2048
    """Raised to dataset.seq_len where that is more."""
    rope_theta: float = 10_000.0
    rope_scaling: RopeScaling | None = None
    rms_norm_eps: float = 1e-6
    tie_word_embeddings: bool = False

    def problems(self) -> Iterator[str]:
        sizes = "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads"
        wrong = list(not_positive(self, "model", [*sizes.split(), "max_position_embeddings"]))
        yield from wrong
        if wrong:
            return
        if self.hidden_size % self.num_attention_heads or self.hidden_size // self.num_attention_heads % 2:
            heads = f"model.num_attention_heads {self.num_attention_heads}"
            yield f"model.hidden_size {self.hidden_size} must be an even multiple of {heads}"
        if self.num_attention_heads % (self.num_key_value_heads or 1):
            heads = f"model.num_key_value_heads {self.num_key_value_heads}"
            yield f"model.num_attention_heads {self.num_attention_heads} must be a multiple of {heads}"

    def build(self, seq_len: int) -> Any:
        """The model with random weights, on torch's default device."""
        from transformers import LlamaConfig, LlamaForCausalLM

        rope: dict[str, Any] = {"rope_theta": self.rope_theta}
        if self.rope_scaling:
            rope["rope_scaling"] = {"rope_type": "llama3", **vars(self.rope_scaling)}
        return LlamaForCausalLM(
            LlamaConfig(
                vocab_size=self.vocab_size,
                hidden_size=self.hidden_size,
                intermediate_size=self.intermediate_size,
                num_hidden_layers=self.num_hidden_layers,
                num_attention_heads=self.num_attention_heads,
                num_key_value_heads=self.num_key_value_heads or self.num_attention_heads,
                max_position_embeddings=max(self.max_position_embeddings, seq_len),
                rms_norm_eps=self.rms_norm_eps,
                tie_word_embeddings=self.tie_word_embeddings,
                use_cache=False,
                **rope,
            )
        )

    def original_dtype(self) -> str:
        """The dtype that the weights begin with."""
        return "float32"


@dataclass
class Pretrained:
    """A Hugging Face checkpoint: its architecture and, at the first start, its weights."""

    path: str
    """A folder that all nodes see, with config.json and the weights; or a name on the Hugging Face hub."""
    trust_remote_code: bool = False
    """Whether code that comes with the checkpoint may run."""

    def problems(self) -> Iterator[str]:
        folder = Path(self.path)
        if folder.is_dir() and not (folder / "config.json").is_file():
            yield f"model.path {self.path} is no Hugging Face checkpoint: it holds no config.json"
        elif not folder.exists() and (folder.is_absolute() or self.path.startswith(".") or self.path.count("/") > 1):
            yield f"model.path {self.path} does not exist on {os.uname().nodename}"

    def build(self, seq_len: int) -> Any:
        """The model with its weights in float32, which training keeps them in."""
        from transformers import AutoModelForCausalLM

        from trainer.ranks import Mistake

        try:
            model = AutoModelForCausalLM.from_pretrained(self.path, trust_remote_code=self.trust_remote_code)
        except (OSError, ValueError) as error:
            first = str(error).strip().partition("\n")[0]
            raise Mistake(f"model.path {self.path} cannot be loaded: {first}") from error
        model.config.use_cache = False
        return model.float()

    def original_dtype(self) -> str:
        """The dtype of the weights in the checkpoint."""
        from transformers import AutoConfig

        config = AutoConfig.from_pretrained(self.path, trust_remote_code=self.trust_remote_code)
        name = str(getattr(config, "dtype", None) or getattr(config, "torch_dtype", None) or "float32")
        return name.removeprefix("torch.")
