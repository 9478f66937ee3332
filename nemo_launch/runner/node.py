"""torchrun on one node, after a look at what would make it fail without a clear word.

Standard library only (and the torch that it starts), Python 3.8 or newer; called by skeleton.sh, once a node.
"""

import argparse
import contextlib
import importlib.util
import os
import signal
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rank as rank_runner  # beside this file


def problem(ranks, cause, text, code):
    """Leave why nothing can start here, for the exit record, and say it once in the log."""
    if rank_runner.create(os.path.join(ranks, "problem"), "%s\n%s\n" % (cause, text)):
        print("nemo_launch: " + text, flush=True)
    sys.exit(code)


def port_is_free(port):
    """Whether a rendezvous on this machine could listen there."""
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind((address, port))
        except OSError as error:
            if error.errno == 98:  # EADDRINUSE; anything else (no IPv6) says nothing about the port
                return False
    return True


def torchrun(args, node_rank):
    """torchrun's own command line."""
    words = ["--nnodes=%d" % args.nodes, "--nproc-per-node=%d" % args.nproc, "--max-restarts=0"]
    if args.standalone:
        # its default is this machine's full name, which need not resolve
        words += ["--standalone", "--local-addr=localhost"]
    else:
        words += ["--node-rank=%d" % node_rank, "--master-addr=" + os.environ["MASTER_ADDR"]]
        words += ["--master-port=" + os.environ["MASTER_PORT"]]
    return words + ["--no-python"] + args.command[1:]


def main():
    parser = argparse.ArgumentParser(prog="node.py")
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--nproc", type=int, required=True)
    parser.add_argument("--ranks", required=True)
    parser.add_argument("--work-dir", required=True)
    parser.add_argument("--ignore")
    parser.add_argument("--standalone", action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    node = rank_runner.node_name()
    node_rank = int(os.environ.get("SLURM_NODEID", "0"))
    rank_runner.die_with_parent()
    if args.ignore:  # torchrun would die of it while its workers live on
        signal.signal(getattr(signal, "SIG" + args.ignore), signal.SIG_IGN)
    try:
        os.chdir(args.work_dir)
    except OSError as error:
        text = "work dir %s is missing or closed on %s (%s). It must exist on every node."
        problem(args.ranks, "workdir", text % (args.work_dir, node, error.strerror), 78)
    sys.path.pop(0)
    if importlib.util.find_spec("torch") is None:
        text = (
            "%s on %s has no torch, which launcher torchrun needs. Set python to an interpreter that has it, "
            "or choose launcher none."
        )
        problem(args.ranks, "torch", text % (sys.executable, node), 78)
    if node_rank == 0 and not args.standalone and not port_is_free(int(os.environ["MASTER_PORT"])):
        rank_runner.create(os.path.join(args.ranks, "port-taken"), os.environ["MASTER_PORT"])
        text = "port %s is taken on %s. Set master_port to another one." % (os.environ["MASTER_PORT"], node)
        problem(args.ranks, "port", text, 98)

    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as run

    try:
        run(torchrun(args, node_rank))
    except ChildFailedError as error:
        first, failure = error.get_first_failure()
        if failure.exitcode < 0:  # the rank's runner itself was killed, so it left no word
            with contextlib.suppress(Exception):
                rank_runner.record(
                    args.ranks, int(first), args.nodes * args.nproc, failure.exitcode, b"", induced=False
                )
        return 1
    except SignalException as error:
        return 128 + int(error.sigval)
    return 0


if __name__ == "__main__":
    sys.exit(main())
