"""All-reduce on one host: switchml and Gloo side by side, alternating within one run, on the same processes and buffers.

    python benchmarks/allreduce --ranks 2,4,8 --json out/allreduce.json

Every size is verified on both backends, against sums known beforehand, before anything is timed. A time is that of the
slowest rank. The ratio is switchml's median over Gloo's: below 1, switchml is faster.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import socket
import subprocess
import sys
import tempfile

import report

WORKER = pathlib.Path(__file__).resolve().parent / "worker.py"
UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
DEFAULT_SIZES = "4,64,1K,4K,16K,64K,256K,1M,4M,16M,64M,256M"


def byte_size(text):
    text = text.strip().upper().removesuffix("IB")
    digits = text.rstrip("BKMG")
    if not digits.isdigit() or text[len(digits):] not in UNITS:
        raise argparse.ArgumentTypeError(f"{text!r}: a size is a number with K, M or G behind it, like 64K")
    size = int(digits) * UNITS[text[len(digits):]]
    if size == 0 or size % 4:
        raise argparse.ArgumentTypeError(f"{text}: sizes are multiples of 4 bytes, the size of a float32")
    return size


def list_of(kind):
    return lambda text: [kind(item) for item in text.split(",")]


def rank_count(text):
    ranks = int(text)
    if not 2 <= ranks <= 64:
        raise argparse.ArgumentTypeError(f"{text}: between 2 and 64 ranks")
    return ranks


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_ranks(ranks, arguments, folder):
    """Starts one process per rank and returns rank 0's rows. The first rank to fail ends the others."""
    result = pathlib.Path(folder) / f"{ranks}.json"
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks),
                   "OMP_NUM_THREADS": "1"}
    if arguments.transport:
        environment["SWITCHML_TRANSPORT"] = arguments.transport
    command = [sys.executable, str(WORKER), "--sizes", ",".join(map(str, arguments.sizes)), "--backends",
               ",".join(arguments.backends), "--iters", str(arguments.iters), "--seconds", str(arguments.seconds),
               "--result", str(result)]
    processes = [subprocess.Popen(command, env={**environment, "RANK": str(rank)}, stdin=subprocess.DEVNULL)
                 for rank in range(ranks)]
    try:
        wait_for_all(processes)
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    return json.loads(result.read_text())


def wait_for_all(processes):
    waiting = list(enumerate(processes))
    while waiting:
        rank, process = waiting[0]
        try:
            process.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            pass
        for rank, process in waiting:
            if process.poll() not in (None, 0):
                sys.exit(f"error: rank {rank} of {len(processes)} ended with status {process.returncode}")
        waiting = [(rank, process) for rank, process in waiting if process.poll() is None]


def describe_machine():
    model = next((line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.processor())
    return {"processor": model, "cores": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version()}


def main():
    parser = argparse.ArgumentParser(prog="benchmarks/allreduce", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=list_of(rank_count), default=[2, 4, 8], help="default: 2,4,8")
    parser.add_argument("--sizes", type=list_of(byte_size), default=list_of(byte_size)(DEFAULT_SIZES),
                        help=f"bytes of a tensor; default: {DEFAULT_SIZES}")
    parser.add_argument("--backends", type=lambda text: text.split(","), default=["switchml", "gloo"],
                        help="default: switchml,gloo; a ratio is that of the first two")
    parser.add_argument("--iters", type=int, default=0, help="timed calls per size and backend; default 0: by --seconds")
    parser.add_argument("--seconds", type=float, default=2.0, help="time to spend per size and backend; default: 2")
    parser.add_argument("--transport", default="", help="sets SWITCHML_TRANSPORT")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures here")
    arguments = parser.parse_args()
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        for ranks in arguments.ranks:
            runs.append(run_ranks(ranks, arguments, folder))
            report.print_run(runs[-1], arguments.backends)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        content = {"benchmark": "allreduce", "date": datetime.datetime.now().isoformat(timespec="seconds"),
                   "machine": describe_machine(), "backends": arguments.backends, "runs": runs}
        arguments.json.write_text(json.dumps(content, indent=1) + "\n")
        print(f"written: {arguments.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
