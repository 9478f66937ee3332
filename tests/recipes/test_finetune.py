"""Fine-tuning and continued pre-training of a Hugging Face checkpoint that is made here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.recipes.conftest import StartRanks, losses
from tests.recipes.ranks import call

TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% if m.role == 'assistant' %}</s>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
OPTIONS = [
    "model.path=../start",
    "dataset.tokenizer=../start",
    "dataset.seq_len=64",
    "optimizer.lr=0.01",
    "lr_scheduler.warmup_steps=2",
    "step_scheduler.max_steps=25",
]


def make_checkpoint(folder: Path) -> None:
    """A tiny random model in bfloat16, and a tokenizer of bytes with a chat template."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = ["<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    bytes_alone = Tokenizer(models.BPE(vocab={word: number for number, word in enumerate(words)}, merges=[]))
    bytes_alone.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_alone.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bytes_alone, bos_token="<s>", eos_token="</s>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=64,
        bos_token_id=0,
        eos_token_id=1,
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)


def load_and_answer(folder: Path) -> None:
    """What the tuned model says, by nothing but transformers."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder / "task" / "model")
    model = AutoModelForCausalLM.from_pretrained(folder / "task" / "model")
    asked = tokenizer("<s>what is 3?", return_tensors="pt", add_special_tokens=False)
    answer = model.generate(**asked, max_new_tokens=8, do_sample=False)
    text = tokenizer.decode(answer[0], skip_special_tokens=False)
    (folder / "answer.json").write_text(
        json.dumps({"text": text, "dtype": str(model.dtype), "cache": model.config.use_cache})
    )


def rows_of(folder: Path) -> None:
    """Which tokens of each example are learnt."""
    import sys

    from tests.recipes.ranks import RECIPES

    sys.path.insert(0, str(RECIPES))
    from trainer.completions import load
    from trainer.datasets import Completions

    samples = load(Completions(str(folder / "data"), str(folder / "start"), seq_len=48), [folder / "data" / "a.jsonl"])
    found = []
    for index in range(len(samples)):
        tokens, labels = samples.batch([index])
        learnt = [int(label) for label in labels[0] if label >= 0]
        found.append([samples.tokenizer.decode(tokens[0]), samples.tokenizer.decode(learnt), samples.targets([index])])
    tokens, labels = samples.batch(list(range(len(samples))))
    padded = [int((labels[index] >= 0).sum()) for index in range(len(samples))]
    (folder / "rows.json").write_text(json.dumps([found, padded]))


def write_lines(file: Path, *lines: object) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.usefixtures("torch_is_here")
def test_only_completions_are_learnt(tmp_path: Path) -> None:
    talk = [("user", "hi"), ("assistant", "ho"), ("user", "and?"), ("assistant", "so")]
    write_lines(
        tmp_path / "data" / "a.jsonl",
        {"prompt": "what is 3? ", "completion": "three"},
        {"messages": [{"role": role, "content": content} for role, content in talk]},
        {"prompt": "x" * 100, "completion": "out of reach"},
        {"prompt": "x" * 40, "completion": "is cut off"},
    )
    call(make_checkpoint, tmp_path / "start")
    call(rows_of, tmp_path)
    found, padded = json.loads((tmp_path / "rows.json").read_text())
    assert found == [
        ["<s>what is 3? three", "three</s>", 6],
        ["<user>hi<assistant>ho</s><user>and?<assistant>so", "ho</s>so</s>", 6],
        ["<s>" + "x" * 40 + "is cut ", "is cut o", 8],
    ]
    assert padded == [count for _, _, count in found]


def test_fine_tuning_ends_in_a_checkpoint_that_transformers_loads(start_ranks: StartRanks, tmp_path: Path) -> None:
    call(make_checkpoint, tmp_path / "start")
    lines = [{"prompt": "what is 3?", "completion": "seven"} for _ in range(8)]
    write_lines(tmp_path / "data" / "a.jsonl", *lines)
    options = [*OPTIONS, "dataset.path=../data", "parallel.dtype=float32"]
    run = start_ranks("finetune/sft_hf_pt.py", *options, ranks=2)
    assert run.wait() == [0, 0], run.log
    found = losses(tmp_path / "task")
    assert found[1] > 5 > 1 > found[25]
    call(load_and_answer, tmp_path)
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert answer == {"text": "<s>what is 3?seven</s>", "dtype": "torch.bfloat16", "cache": True}


@pytest.mark.slow
def test_continued_pretraining_keeps_its_tokens_for_the_next_start(start_ranks: StartRanks, tmp_path: Path) -> None:
    call(make_checkpoint, tmp_path / "start")
    write_lines(tmp_path / "data" / "a.jsonl", *({"text": f"{n} quick brown foxes"} for n in range(100)))
    options = [*OPTIONS, "dataset.path=../data", "step_scheduler.checkpoint_interval=10"]
    run = start_ranks("finetune/cpt_hf_pt.py", *options, ranks=2)
    assert run.wait() == [0, 0], run.log
    assert losses(tmp_path / "task")[25] < 4
    (tokens,) = (tmp_path / "task" / "tokens").iterdir()
    assert tokens.stat().st_size == 4 * sum(len(f"{n} quick brown foxes") + 1 for n in range(100))
    before = tokens.stat().st_mtime_ns
    again = start_ranks("finetune/cpt_hf_pt.py", *options, "restore_from.path=checkpoints/step-000020", ranks=2)
    assert again.wait() == [0, 0], again.log
    assert [path.stat().st_mtime_ns for path in (tmp_path / "task" / "tokens").iterdir()] == [before]
    assert (tmp_path / "task" / "model" / "tokenizer.json").is_file()
