"""All-reduces of an accelerator's tensors by ranks of one host, beside what they are made of: copies from and to pinned
memory, and the all-reduce of tensors of the host.

    python benchmarks/device --ranks 2,4 --sizes 1M,64M --backends switchml,gloo --json out/device.json

Ranks share the accelerators of the machine. `overlap` is the time over the sum of the parts; `caller` is how long an
asynchronous call keeps its caller. Figures are medians of each rank's, and of these the slowest rank's. A device that
PyTorch does not know by itself: --module torch_npu, say, which the ranks import first.
"""

import argparse
import functools
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "common"))
import launch  # noqa: E402
import options  # noqa: E402
import places  # noqa: E402
import report  # noqa: E402
import repository  # noqa: E402

PARTS = ("in", "host", "out")


def parse():
    parser = argparse.ArgumentParser(
        prog="benchmarks/device", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=options.list_of(options.rank_count), default=[2], help="default: 2")
    parser.add_argument(
        "--sizes",
        type=options.list_of(options.byte_size),
        default=[64 << 10, 1 << 20, 16 << 20, 64 << 20],
        help="default: 64K,1M,16M,64M",
    )
    parser.add_argument(
        "--backends", type=options.list_of(options.backend), default=["switchml"], help="default: switchml"
    )
    parser.add_argument("--calls", type=options.number(3, 100000, int), default=20, help="of each kind; default: 20")
    parser.add_argument("--module", help="imported first, for a device that PyTorch does not know by itself")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures here")
    return parser.parse_args()


def run(ranks, arguments):
    what = {name: getattr(arguments, name) for name in ("sizes", "backends", "calls", "module")}
    return launch.run(HERE / "worker.py", ranks, what)


def show(measured, backends):
    print(f"\n{measured['ranks']} ranks of one host, torch {measured['torch']}")
    rows = [
        [
            report.format_bytes(row["bytes"]),
            name,
            *(report.format_seconds(found[part]) for part in (*PARTS, "device", "caller")),
            f"{found['device'] / sum(found[part] for part in PARTS):.2f}",
        ]
        for row in measured["rows"]
        for name, found in row["seconds"].items()
        if name in backends
    ]
    report.print_columns(["size", "backend", *PARTS, "device", "caller", "overlap"], rows)
    sys.stdout.flush()


def main():
    arguments = parse()
    return repository.measure("device", arguments, run, functools.partial(show, backends=arguments.backends))


if __name__ == "__main__":
    places.run(main)
