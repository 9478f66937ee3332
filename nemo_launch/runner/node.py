"""torchrun, or ft_launcher, on one node, after a look at what would make it fail without a clear word.

Standard library only (and the torch that it starts), Python 3.8 or newer; called by skeleton.sh, once a node.
"""

from __future__ import annotations

import argparse
import errno
import importlib.util
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nemo_launch.runner import failure
    from nemo_launch.runner.rank import die_with_parent
else:  # on the node they lie beside this file; afterwards the user's modules come first again
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, here)
    sys.dont_write_bytecode, kept = True, sys.dont_write_bytecode
    import failure
    from rank import die_with_parent

    sys.path[:] = [path for path in sys.path if path != here]
    sys.dont_write_bytecode = kept

BAD_SETUP = 78


def port_is_free(port: int) -> bool:
    """Whether a rendezvous on this machine could listen there."""
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind((address, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:  # anything else (no IPv6) says nothing about the port
                return False
    return True


def why_not(args: argparse.Namespace, node_rank: int) -> tuple[str, str] | None:
    """(cause, text) of what stands in the way here."""
    node = failure.node_name()
    try:
        os.chdir(args.work_dir)
    except OSError as error:
        return "workdir", failure.work_dir_problem(args.work_dir, error)
    if importlib.util.find_spec("torch") is None:
        remedy = "Set python to an interpreter that has it, or choose launcher none."
        return "torch", "%s on %s has no torch, which launcher torchrun needs. %s" % (sys.executable, node, remedy)
    if args.ft and importlib.util.find_spec("nvidia_resiliency_ext") is None:
        remedy = "Install nvidia-resiliency-ext there (with a container: in its image), or choose launcher torchrun."
        return "ft", "%s on %s has no ft_launcher, which launcher ft needs. %s" % (sys.executable, node, remedy)
    if node_rank == 0 and not args.standalone and not port_is_free(int(os.environ["MASTER_PORT"])):
        port = os.environ["MASTER_PORT"]
        failure.create(os.path.join(args.ranks, "port-taken"), port)
        return "port", "port %s is taken on %s. Set master_port to another one." % (port, node)
    return None


def torchrun(args: argparse.Namespace, node_rank: int) -> list[str]:
    """torchrun's own command line."""
    words = ["--nnodes=%d" % args.nodes, "--nproc-per-node=%d" % args.nproc, "--max-restarts=0"]
    if args.standalone:
        # its default is this machine's full name, which need not resolve
        words += ["--standalone", "--local-addr=localhost"]
    else:
        words += ["--node-rank=%d" % node_rank, "--master-addr=" + os.environ["MASTER_ADDR"]]
        words += ["--master-port=" + os.environ["MASTER_PORT"]]
    return [*words, "--no-python", *args.command[1:]]


def ft_launcher(args: argparse.Namespace) -> list[str]:
    """ft_launcher's own command line. Its ranks meet by c10d, the one way that lets them be started again."""
    words = ["--nnodes=%d" % args.nodes, "--nproc-per-node=%d" % args.nproc]
    if args.standalone:
        words += ["--standalone", "--local-addr=localhost"]
    else:
        host = int(os.environ.get("SLURM_NODEID", "0")) == 0
        words += ["--rdzv-backend=c10d", "--rdzv-endpoint=%(MASTER_ADDR)s:%(MASTER_PORT)s" % os.environ]
        words += ["--rdzv-id=" + os.path.basename(args.ranks), "--rdzv-conf=is_host=%s" % str(host).lower()]
        words += ["--local-addr=" + failure.node_name()]
    if not any(word.startswith("--ft-cfg-path") for word in args.ft):
        words.append("--ignore-missing-fault-tol-cfg")
    return [*words, *args.ft, "--no-python", *args.command[1:]]


def main() -> int:
    """Run this node's ranks to their end."""
    parser = argparse.ArgumentParser(prog="node.py")
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--nproc", type=int, required=True)
    parser.add_argument("--ranks", required=True)
    parser.add_argument("--work-dir", required=True)
    parser.add_argument("--ignore")
    parser.add_argument("--standalone", action="store_true")
    parser.add_argument("--ft", action="append", default=[])
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    node_rank = int(os.environ.get("SLURM_NODEID", "0"))
    die_with_parent()
    if args.ignore:  # torchrun would die of it while its workers live on
        signal.signal(getattr(signal, "SIG" + args.ignore), signal.SIG_IGN)
    obstacle = why_not(args, node_rank)
    if obstacle:
        failure.problem(args.ranks, *obstacle)
        return BAD_SETUP

    if args.nproc > 1:  # torchrun's own choice, without its warning in every log
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    if args.ft:
        from nvidia_resiliency_ext.fault_tolerance.launcher import main as run_ft

        run_ft(ft_launcher(args))  # ends with an exit code of its own; which rank failed, the ranks say
        return 0
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as run

    try:
        run(torchrun(args, node_rank))
    except ChildFailedError as error:  # its own traceback says nothing about the program
        rank, first = error.get_first_failure()
        if first.exitcode < 0:  # the rank's runner itself was killed and left no word
            failure.record(args.ranks, int(rank), args.nodes * args.nproc, first.exitcode, b"", induced=False)
        return 1
    except SignalException as error:
        return failure.exit_code(-int(error.sigval))
    return 0


if __name__ == "__main__":
    sys.exit(main())
