"""Small all-reduces on one host, one after the other: switchml, Gloo, and Open MPI where it is installed, in the same
processes.

    python benchmarks/latency --ranks 2,4,8 --sizes 4K,64K,1M --json out/latency.json

Calls follow each other, with a copy of the input between them, as those of a program do that waits for each. So a time
is what a rank spends in a call, waiting for later ranks included; figures are those of all calls of all ranks. Each
block is verified at its end. Open MPI needs mpirun, and mpi4py in the Python that runs this (apt-get install
openmpi-bin, pip install mpi4py).
"""

import argparse
import functools
import importlib.util
import pathlib
import shutil
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "common"))
import launch  # noqa: E402
import options  # noqa: E402
import places  # noqa: E402
import report  # noqa: E402
import repository  # noqa: E402

BACKENDS = (*options.BACKENDS, "openmpi")


def backend(text):
    return text if text in BACKENDS else options.refuse(text, ", ".join(BACKENDS))


def no_openmpi():
    """Why there is none; empty where there is."""
    lacking = [
        name
        for name, found in (("mpirun", shutil.which("mpirun")), ("mpi4py", importlib.util.find_spec("mpi4py")))
        if not found
    ]
    return f"without Open MPI: {' and '.join(lacking)} not found" if lacking else ""


def parse():
    parser = argparse.ArgumentParser(
        prog="benchmarks/latency", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=options.list_of(options.rank_count), default=[2, 4, 8], help="default: 2,4,8")
    parser.add_argument(
        "--sizes",
        type=options.list_of(options.byte_size),
        default=[4 << 10, 64 << 10, 1 << 20],
        help="default: 4K,64K,1M",
    )
    parser.add_argument(
        "--backends", type=options.list_of(backend), help="default: switchml,gloo, and openmpi where it is installed"
    )
    parser.add_argument(
        "--calls", type=options.number(20, 1000000, int), default=10000, help="at most, of a backend; default: 10000"
    )
    parser.add_argument(
        "--seconds", type=options.number(0.01, 3600), default=2.0, help="at most, about, of a backend; default: 2"
    )
    parser.add_argument(
        "--rounds", type=options.number(1, 1000, int), default=5, help="of the backends, interleaved; default: 5"
    )
    parser.add_argument("--json", type=pathlib.Path, help="write all figures here")
    arguments = parser.parse_args()
    if arguments.backends is None:
        arguments.backends = [*options.BACKENDS, *(() if no_openmpi() else ("openmpi",))]
        if no_openmpi():
            print(no_openmpi())
    elif "openmpi" in arguments.backends and no_openmpi():
        parser.error(no_openmpi())
    return arguments


def run(ranks, arguments):
    what = {name: getattr(arguments, name) for name in ("sizes", "backends", "calls", "seconds", "rounds")}
    return launch.run(HERE / "worker.py", ranks, what)


def show(measured, backends):
    print(f"\n{measured['ranks']} ranks of one host, torch {measured['torch']}")
    rows = [
        [
            report.format_bytes(row["bytes"]),
            name,
            str(len(row["seconds"][name]) // measured["ranks"]),
            report.format_seconds(statistics.median(row["seconds"][name])),
            report.format_seconds(report.quantile(row["seconds"][name], 0.99)),
        ]
        for row in measured["rows"]
        for name in backends
    ]
    report.print_columns(["size", "backend", "calls", "p50", "p99"], rows)
    sys.stdout.flush()


def main():
    arguments = parse()
    shown = functools.partial(show, backends=arguments.backends)
    return repository.measure("latency", arguments, run, shown, backends=arguments.backends)


if __name__ == "__main__":
    places.run(main)
