"""What is recognised in logs, and what is not."""

from __future__ import annotations

import time

import pytest

from nemo_launch.signatures import find, known

#: Lines as the programs write them, by the signature that they show.
LINES: dict[str, list[str]] = {
    "tokenizer-cross-device": [
        "OSError: [Errno 18] Invalid cross-device link: 'gpt2-vocab.json' -> "
        "'/root/.cache/torch/megatron/megatron-gpt-345m_vocab'",
        "[a3m-0:3] OSError: [Errno 18] Invalid cross-device link: 'gpt2-merges.txt' -> '/c/megatron-gpt-345m_merges'",
    ],
    "cross-device": ["OSError: [Errno 18] Invalid cross-device link: 'a.tmp' -> '/data/a'"],
    "cuda-out-of-memory": [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 22.78 GiB. GPU 0 has a total capacity of 31.47 "
        "GiB of which 12.73 GiB is free.",
        "RuntimeError: CUDA out of memory. Tried to allocate 2.87 GiB (GPU 0; 14.76 GiB total capacity)",
        "[a3m-1:13] torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.",
        "[rank1]: CUDA out of memory",
    ],
    "host-out-of-memory": [
        "slurmstepd: error: Detected 1 oom_kill event in StepId=11.0. Some of the step tasks have been OOM Killed.",
        "slurmstepd: error: Detected 2 oom-kill event(s) in step 3756240.batch cgroup.",
        "srun: error: nid001277: tasks 1-3: Out Of Memory",
        "OSError: [Errno 12] Cannot allocate memory",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory: you tried to",
    ],
    "shared-memory": [
        "RuntimeError: DataLoader worker (pid 3002) is killed by signal: Bus error. It is possible that dataloader's "
        "workers are out of shared memory. Please try to raise your shared memory limit.",
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
        "srun: error: Orion-18-69: task 289: Bus error",
    ],
    "nccl-timeout": [
        "[rank1]:[E626 06:24:44.903881913 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=808, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600020 milliseconds before",
        "[E ProcessGroupNCCL.cpp:458] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=96120)",
    ],
    "nccl-network": [
        "ncclInvalidUsage: network gIB not found",
        "ncclSocketInit: connecting to address  with family 59936 is neither AF_INET(2) nor AF_INET6(10)",
        "a3u-0:12:12 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found",
    ],
    "nccl-error": [
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1691, unhandled cuda error"
    ],
    "port-in-use": [
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
        "port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
        "OSError: [Errno 98] Address already in use",
        "[W socket.cpp:426] [c10d] The server socket has failed to bind to [::]:25641 (errno: 98 - Address already",
    ],
    "master-unreachable": [
        "[E521 15:43:02 socket.cpp:1023] [c10d] The client socket has timed out after 600000ms while trying to connect "
        "to (172.18.21.4, 37907).",
        "[W socket.cpp:752] [c10d] The client socket has failed to connect to [a3m-0]:13742 (errno: 111)",
        "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.",
    ],
    "hugging-face-access": [
        "huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: Root=1-66f4b037)",
        "Access to model google/gemma-2-2b-it is restricted. You must have access to it and be authenticated.",
        "403 Client Error: Forbidden for url: https://huggingface.co/meta-llama/Llama-3.1-8B/resolve/main/config.json",
        "OSError: You are trying to access a gated repo.",
        "huggingface_hub.errors.LocalTokenNotFoundError: Token is required (token=True), but no token found.",
    ],
    "wandb-key": [
        "wandb: ERROR api_key not configured (no-tty). call wandb.login(key=[your_api_key])",
        "wandb.errors.errors.UsageError: api_key not configured (no-tty). call wandb.login(key=[your_api_key])",
    ],
    "quota": [
        "OSError: [Errno 122] Disk quota exceeded: 'out/latest.pt'",
        "cp: error writing 'a': Disk quota exceeded",
    ],
    "disk-full": [
        "OSError: [Errno 28] No space left on device",
        "RuntimeError: [enforce fail at inline_container.cc:603] . unexpected pos: No space left on device",
    ],
    "time-limit": [
        "slurmstepd: error: *** JOB 494583 ON a3m-0 CANCELLED AT 2024-04-20T09:09:37 DUE TO TIME LIMIT ***",
        "slurmstepd: error: *** STEP 32233190.0 ON nid01934 CANCELLED AT 2020-07-03T02:59:56 DUE TO TIME LIMIT ***",
    ],
    "image-not-found": [
        "slurmstepd: error: pyxis: failed to import docker image",
        "slurmstepd: error: pyxis:     [ERROR] URL https://registry-1.docker.io/v2/a/b/manifests/c returned error "
        "code: 404 Not Found",
        "slurmstepd: error: pyxis:     [ERROR] No such file or directory: /work/nemo-demo.sqsh",
    ],
    "mount-missing": [
        "slurmstepd: error: pyxis:     enroot-mount: failed to mount: /data at /tmp/enroot-data/d: Permission denied",
        "nemo_launch: /data is missing on a3m-1. The container needs it on every node of the job.",
    ],
    "container-start": ["slurmstepd: error: pyxis: container start failed with error code: 1"],
    "module-missing": [
        "ModuleNotFoundError: No module named 'nemo'",
        "/usr/bin/python3: No module named torch",
        "python: error while loading shared libraries: libcudnn.so.9: cannot open shared object file",
    ],
    "gpu-driver": [
        "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).",
        "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version",
        "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU",
        "RuntimeError: No CUDA GPUs are available",
    ],
    "gpu-fault": ["torch.AcceleratorError: CUDA error: an illegal memory access was encountered"],
    "not-finite": ["RuntimeError: found NaN in local grad norm for bucket #0", "ValueError: loss is nan at step 12"],
    "permission": [
        "PermissionError: [Errno 13] Permission denied: '/root/.cache'",
        "OSError: [Errno 30] Read-only file system: '/workspace/out'",
        "mkdir: cannot create directory '/run/enroot': Permission denied",
    ],
    "mpi-plugin": [
        "srun: error: Invalid MPI type 'pmix_v99', --mpi=list for acceptable types",
        "srun: error: cannot find mpi plugin for mpi/pmix_v99",
        "srun: error: Couldn't find the specified plugin name for mpi/pmix_v3 looking at all files",
    ],
}

#: Lines of runs that are well, with the words of failures in them.
INNOCENT = [
    "step 10/100 loss 2.31 grad_norm 1.0 mem 31.2 GiB",
    "NCCL INFO NET/Plugin: Failed to find ncclNetPlugin_v5 symbol.",
    "NCCL INFO NET/IB : No device found.",
    "NCCL INFO NCCL_SOCKET_IFNAME set by environment to enp0s12",
    "NCCL INFO Bootstrap : Using enp0s12:10.0.0.2<0>",
    "memory: 10% out of 80 GiB",
    "loading checkpoint; time limit is 4 h, timeout=600000",
    "running on port 13742 in use by rank 0",
    "wandb: Tracking run with wandb version 0.19.1",
    "wandb: WARNING Path ./wandb was not writable, using system temp directory.",
    "/opt/module/file.py:3: UserWarning: permissions of the cache are wide",
    "[a3m-0:0] inform: nano, finance, information, infinity war",
    "Downloading https://huggingface.co/gpt2/resolve/main/config.json: 200",
    "disk usage 70%, quota 1T",
    "found 8 CUDA devices, driver 550.54",
    "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default",
    "UserWarning: The NVIDIA driver was found",
    "slurmstepd: error: *** STEP 7.0 ON a3m-0 CANCELLED AT 2024-04-20T09:09:37 ***",
    "srun: error: a3m-0: task 0: Exited with exit code 7",
    "pyxis: importing docker image: nvcr.io#nvidia/nemo:25.07",
    "pyxis: imported docker image: nvcr.io#nvidia/nemo:25.07",
    "KeyError: 'x'",
    "cross-device copies: 3",
    "nemo_launch: port 13742 is taken on a3m-0: using 13743",
    "network between the nodes: tcpxo",
]


def test_every_signature_is_tried() -> None:
    assert [signature.name for signature in known()] == list(LINES)
    texts = [text for signature in known() for text in (signature.means, *signature.remedies, signature.source)]
    assert [text for text in texts if type(text) is not str] == []  # YAML makes a mapping of what has a colon


@pytest.mark.parametrize("name", LINES)
def test_a_line_is_recognised(name: str) -> None:
    for line in LINES[name]:
        found = find([f"step 1\n{line}\nsrun: error: a3m-0: task 0: Exited with exit code 1\n"])
        assert found and found.name == name, line
        assert found.line and found.line in line
        assert found.means and found.remedies


@pytest.mark.parametrize("line", INNOCENT)
def test_what_is_innocent_is_not(line: str) -> None:
    assert find([line]) is None


@pytest.mark.parametrize("dress", ["\x1b[31m{}\x1b[0m", "\x1b[1;38;5;196m{}\x1b[K", "\x1b]0;title\x07{}\x1b[?25h"])
def test_colours_hide_nothing_and_are_not_shown(dress: str) -> None:
    for name in ("cuda-out-of-memory", "quota", "mpi-plugin"):
        found = find([dress.format(LINES[name][0])])
        assert found and (found.name, found.line) == (name, LINES[name][0])


def test_both_remedies_of_the_tokenizer_are_those_of_the_guide() -> None:
    found = find(LINES["tokenizer-cross-device"])
    assert found
    assert found.remedies == (
        "run again with the same `--cache-dir`",
        "put gpt2-vocab.json and gpt2-merges.txt into `<cache>/torch/megatron/` as `megatron-gpt-345m_vocab` and "
        "`megatron-gpt-345m_merges`",
    )


def test_the_cause_comes_before_what_other_ranks_say_of_it() -> None:
    oom, timeout = LINES["cuda-out-of-memory"][0], LINES["nccl-timeout"][0]
    for text in (f"{oom}\n{timeout}\n" * 3, f"{timeout}\n{oom}\n{timeout}\n"):
        found = find([text])
        assert found and found.name == "cuda-out-of-memory"
    found = find([timeout, oom])  # also where the rank that failed first only waited
    assert found and found.name == "cuda-out-of-memory"


def test_the_log_of_the_rank_that_failed_first_counts_most_and_its_end_more_than_its_beginning() -> None:
    module, quota = LINES["module-missing"][0], LINES["quota"][0]
    for texts, name in (([module, quota], "module-missing"), ([f"{module}\nfell back\n{quota}"], "quota")):
        found = find(texts)
        assert found and found.name == name


def test_the_schedulers_word_is_enough_and_the_logs_cause_is_more() -> None:
    for state, name in (("OUT_OF_MEMORY", "host-out-of-memory"), ("TIMEOUT", "time-limit")):
        found = find([LINES["nccl-timeout"][0]], state)
        assert found and (found.name, found.line) == (name, "")
    found = find([LINES["quota"][0]], "TIMEOUT")
    assert found and found.name == "quota"
    assert find(["nothing"], "FAILED") is None


def test_long_lines_take_no_time_and_are_cut() -> None:
    start = time.process_time()
    assert find(["oom_kill" * 30_000 + "\n" + "loss " * 50_000]) is None
    found = find([LINES["quota"][0] + " x" * 10_000])
    assert found and len(found.line) == 300
    assert time.process_time() - start < 5
