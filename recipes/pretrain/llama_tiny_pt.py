#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["torch", "transformers", "numpy"]
#
# [tool.nemo-launch]
# launcher = "torchrun"
# ///
"""Pretrains a tiny Llama on real text, byte by byte, with PyTorch DDP.

The text is every source file under --data-dir; by default the sources of Python's own standard library,
which every machine has. With the defaults it takes seconds on two CPU cores. It runs under torchrun, under
srun with RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set, and as one plain process.

A checkpoint is saved every --checkpoint-interval steps, at the end, on SIGUSR1, and whenever the file named
by $NEMO_LAUNCH_CHECKPOINT_REQUESTED appears or is touched. SIGTERM saves a checkpoint and exits 143.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any, NoReturn

try:
    import torch
    import torch.distributed as dist
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.utils.logging import disable_progress_bar
except ModuleNotFoundError as missing:
    remedy = "Install what this recipe needs where it runs: pip install torch transformers numpy"
    print(f"llama_tiny_pt: error: {sys.executable} has no module {missing.name}. {remedy}", file=sys.stderr)
    sys.exit(2)

TEXT_SUFFIXES = (".py", ".txt", ".md", ".rst", ".jsonl")
MAX_TEXT_BYTES = 16 * 2**20  # plenty for a tiny model, and read in well under a second
RANK, LOCAL_RANK, WORLD_SIZE = (
    int(os.environ.get(name, default)) for name, default in (("RANK", 0), ("LOCAL_RANK", 0), ("WORLD_SIZE", 1))
)


def fail(message: str) -> NoReturn:
    """Ends the run for a mistake of the user: one paragraph per node, exit code 2."""
    if LOCAL_RANK == 0:
        print(f"llama_tiny_pt: error: {message}", file=sys.stderr, flush=True)
    sys.exit(2)


def positive(text: str) -> int:
    """An argparse type: a whole number of at least 1."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Pretrains a tiny Llama on text, byte by byte.")
    parser.formatter_class = argparse.ArgumentDefaultsHelpFormatter
    add, out = parser.add_argument, os.environ.get("NEMO_LAUNCH_TASK_DIR") or "llama_tiny_out"
    stdlib = sysconfig.get_path("stdlib")
    add("--data-dir", type=Path, default=stdlib, help=f"train on its {' '.join(TEXT_SUFFIXES)} files")
    add("--output-dir", type=Path, default=out, help="where checkpoints/ and metrics.jsonl go")
    add("--metrics", type=Path, help="file for the metrics as JSON lines, if not OUTPUT_DIR/metrics.jsonl")
    add("--restore-from", type=Path, help="checkpoint to go on from, such as OUTPUT_DIR/checkpoints/latest")
    add("--max-steps", type=positive, default=60, help="optimizer steps in all")
    add("--checkpoint-interval", type=positive, default=20, help="steps between checkpoints")
    add("--keep-checkpoints", type=positive, default=2, help="how many of the newest stay")
    add("--log-interval", type=positive, default=5, help="steps between lines of the log")
    add("--batch-size", type=positive, default=8, help="sequences per rank and step")
    add("--seq-len", type=positive, default=128, help="tokens (bytes) per sequence")
    add("--lr", type=float, default=3e-3, help="learning rate")
    add("--seed", type=int, default=1234, help="of the weights and of the order of the data")
    args = parser.parse_args()
    args.metrics = args.metrics or args.output_dir / "metrics.jsonl"
    return args


def read_text(folder: Path, seq_len: int) -> torch.Tensor:
    """The first bytes of the text under `folder`, in the order of its paths: the same on every node."""
    if not folder.is_dir():
        remedy = "Name one with text files that every node sees, or leave it out to train on Python's own sources."
        fail(f"--data-dir {folder} is not a directory on {socket.gethostname()}. {remedy}")
    text = bytearray()
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - {"site-packages"})  # in place: the order that os.walk goes on in
        for name in sorted(names):
            if name.endswith(TEXT_SUFFIXES) and len(text) < MAX_TEXT_BYTES:
                with contextlib.suppress(OSError):  # a dangling link spoils no training run
                    text += Path(parent, name).read_bytes()
        if len(text) >= MAX_TEXT_BYTES:
            break
    if len(text) <= seq_len:
        where = f"{folder} on {socket.gethostname()} holds {len(text)} bytes in {' '.join(TEXT_SUFFIXES)} files"
        fail(f"--data-dir {where}, too little for one sequence of --seq-len {seq_len}.")
    return torch.frombuffer(text[:MAX_TEXT_BYTES], dtype=torch.uint8)


def batch_of(text: torch.Tensor, step: int, args: argparse.Namespace) -> torch.Tensor:
    """This rank's part of the batch of `step`: depends on seed and step alone, so a restart goes on."""
    order = torch.Generator().manual_seed(args.seed * 1_000_003 + step)
    starts = torch.randint(len(text) - args.seq_len, (WORLD_SIZE, args.batch_size), generator=order)[RANK]
    return torch.stack([text[start : start + args.seq_len] for start in starts.tolist()]).long()


def flush_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def save_checkpoint(folder: Path, keep: int, step: int, model: Any, optimizer: Any) -> None:
    """Saves `folder`/step-000020 whole or not at all: written aside, flushed, renamed; `latest` is last."""
    temporary, final = folder / f".tmp-step-{step:06d}", folder / f"step-{step:06d}"
    link = folder / ".tmp-latest"
    link.unlink(missing_ok=True)
    for leftover in folder.glob(".tmp-*"):  # of a process that was killed while it saved
        shutil.rmtree(leftover)
    model.save_pretrained(temporary)
    torch.save({"step": step, "optimizer": optimizer.state_dict()}, temporary / "trainer.pt")
    for path in [*temporary.iterdir(), temporary]:
        flush_to_disk(path)
    if final.exists():  # of an earlier run into the same directory
        final.rename(folder / ".tmp-replaced")
    temporary.rename(final)
    link.symlink_to(final.name)
    link.replace(folder / "latest")
    flush_to_disk(folder)
    for old in sorted(folder.glob("step-*"), key=lambda path: path.stat().st_mtime_ns)[:-keep]:
        shutil.rmtree(old)
    print(f"checkpoint {final}", flush=True)


def load_checkpoint(folder: Path) -> tuple[Any, dict[str, Any]]:
    """The model and the trainer's state {"step", "optimizer"}."""
    if not (folder / "trainer.pt").is_file():
        fail(f"--restore-from {folder} is no checkpoint of this recipe: it holds no trainer.pt.")
    folder = folder.resolve()  # `latest` may move while we read
    state = torch.load(folder / "trainer.pt", map_location="cpu", weights_only=True)
    return LlamaForCausalLM.from_pretrained(folder), state


class Requests:
    """What is asked for from outside while the steps go on: a checkpoint, an end."""

    def __init__(self) -> None:
        self.asked = self.answered = 0  # two counters, so that a signal during look() is not lost
        self.stop = False
        self.marker, self.marked = os.environ.get("NEMO_LAUNCH_CHECKPOINT_REQUESTED"), 0
        signal.signal(signal.SIGUSR1, self.on_signal)
        signal.signal(signal.SIGTERM, self.on_signal)

    def on_signal(self, number: int, frame: object) -> None:
        self.asked += 1
        self.stop = self.stop or number == signal.SIGTERM

    def look(self, device: torch.device) -> tuple[bool, bool]:
        """(save, stop) as all ranks agree on it: what reached one rank counts for all, at the same step."""
        asked, marked = self.asked, self.marked
        if self.marker:
            with contextlib.suppress(OSError):  # not there: nothing asked
                marked = os.stat(self.marker).st_mtime_ns
        wanted = torch.tensor([asked != self.answered or marked != self.marked, self.stop], dtype=torch.int32)
        self.answered, self.marked = asked, marked
        wanted = wanted.to(device)
        if WORLD_SIZE > 1:
            dist.all_reduce(wanted, op=dist.ReduceOp.MAX)
        return bool(wanted[0]), bool(wanted[1])


def leave(code: int) -> NoReturn:
    """Ends the process while its DDP model is still alive.

    Everything is on disk by now. When DDP's reducer is taken down after gloo's group, as Python would do next, it now
    and then waits for ever for gloo's thread, which waits for the interpreter's lock (seen with torch 2.13).
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def train(args: argparse.Namespace, requests: Requests) -> NoReturn:
    """Trains, and ends the process with the exit code."""
    text = read_text(args.data_dir, args.seq_len)
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", LOCAL_RANK % torch.cuda.device_count()) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    elif "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)  # ranks share the node's cores; more threads than cores is slower by far
    checkpoints = args.output_dir / "checkpoints"
    if RANK == 0:
        try:
            checkpoints.mkdir(parents=True, exist_ok=True)
            metrics = args.metrics.open("a" if args.restore_from else "w", encoding="utf-8")
        except OSError as error:
            fail(f"cannot write {error.filename}: {error.strerror}. Choose another --output-dir or --metrics.")

    torch.manual_seed(args.seed)
    disable_progress_bar()
    state: dict[str, Any] = {"step": 0}
    if args.restore_from:
        model, state = load_checkpoint(args.restore_from)
    else:
        shape = {
            "hidden_size": 128,
            "intermediate_size": 352,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
        }
        positions = max(2048, args.seq_len)
        model = LlamaForCausalLM(LlamaConfig(vocab_size=256, max_position_embeddings=positions, **shape))
    model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    if "optimizer" in state:
        optimizer.load_state_dict(state["optimizer"])

    master = f"MASTER_ADDR={os.environ.get('MASTER_ADDR')} MASTER_PORT={os.environ.get('MASTER_PORT')}"
    print(f"rank {RANK} WORLD_SIZE={WORLD_SIZE} {master} {socket.gethostname()} {device}", flush=True)
    if WORLD_SIZE > 1:
        dist.init_process_group("nccl" if cuda else "gloo")
    parallel = torch.nn.parallel.DistributedDataParallel(model) if WORLD_SIZE > 1 else model

    step, stop = state["step"], False
    losses: list[float] = []
    logged_step, logged_time = step, time.perf_counter()
    while step < args.max_steps and not stop:
        step += 1
        tokens = batch_of(text, step, args).to(device)
        loss = parallel(input_ids=tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

        if not losses or step % args.log_interval == 0 or step == args.max_steps:
            total = loss.detach()
            if WORLD_SIZE > 1:
                dist.all_reduce(total)
            losses.append(total.item() / WORLD_SIZE)
            now = time.perf_counter()
            speed = (step - logged_step) * WORLD_SIZE * tokens.numel() / (now - logged_time)
            logged_step, logged_time = step, now
            if RANK == 0:
                print(f"step {step}/{args.max_steps} loss {losses[-1]:.3f} tokens/s {speed:.0f}", flush=True)
                line = {
                    "step": step,
                    "loss": losses[-1],
                    "tokens_per_s": round(speed, 1),
                    "time": time.time(),
                }
                print(json.dumps(line), file=metrics, flush=True)

        asked, stop = requests.look(device)
        if RANK == 0 and (asked or step % args.checkpoint_interval == 0 or step == args.max_steps):
            save_checkpoint(checkpoints, args.keep_checkpoints, step, model, optimizer)

    if RANK == 0:
        metrics.close()
        change = f", loss {losses[0]:.3f} -> {losses[-1]:.3f}" if losses else ""
        print(f"{'stopped by SIGTERM' if stop else 'done'} after step {step}{change}", flush=True)
    if WORLD_SIZE > 1:
        dist.destroy_process_group()
    leave(128 + signal.SIGTERM if stop else 0)


def main() -> NoReturn:
    """The script's entry."""
    args = parse_arguments()
    if WORLD_SIZE > 1 and "RANK" not in os.environ:
        remedy = "Start one process per rank, with torchrun, or with srun and RANK and LOCAL_RANK set in each."
        fail(f"WORLD_SIZE is {WORLD_SIZE} but RANK is not set. {remedy}")
    train(args, Requests())


if __name__ == "__main__":
    main()
