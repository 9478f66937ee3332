"""What the words ``finetune llm`` stand for in AutoModel, by version: modules with a ``main``, the newest first.

The modules are those of its releases (nemo_automodel/recipes in github.com/NVIDIA-NeMo/Automodel).
"""

from __future__ import annotations

#: (command, domain) -> modules.
MODULES = {
    ("finetune", "llm"): ("nemo_automodel.recipes.llm.train_ft", "nemo_automodel.recipes.llm.finetune"),
    ("finetune", "vlm"): ("nemo_automodel.recipes.vlm.finetune",),
    ("pretrain", "llm"): ("nemo_automodel.recipes.llm.train_ft", "nemo_automodel.recipes.llm.pretrain"),
    ("kd", "llm"): ("nemo_automodel.recipes.llm.kd",),
    ("benchmark", "llm"): ("nemo_automodel.recipes.llm.benchmark",),
}
#: What a file without ``recipe:`` runs where no words say it.
USUAL = ("finetune", "llm")
