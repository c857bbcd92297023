"""What `make bench` runs: parts, each of commands that write a JSON file each. Sizes and rates are those of the targets (table.py)."""
import dataclasses
import pathlib
import sys

import repository

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent
RATE = 50  # Mbit/s of a link at which two cores are not the limit of 8 ranks and all that their network is made of
NETWORK = ["--network", "--rate", RATE]


@dataclasses.dataclass(frozen=True)
class Part:
    minutes: float  # on two cores, about
    commands: dict  # {name of the JSON file without its suffix: arguments, the benchmark first}
    root: bool = False  # makes a network
    picture: str = ""  # of all its files


PARTS = {
    "kernels": Part(1, {"kernels": ["micro"]}),
    "small": Part(4, {"small": ["allreduce", "--ranks", "2,4,8", "--sizes", "4K,64K", "--iters", 2000]}),
    "one-host": Part(3, {"one-host": ["allreduce", "--ranks", "2,4,8", "--sizes", "1M,16M,100M", "--seconds", 2]}, picture="one-host"),
    "network": Part(8, {"network": ["allreduce", *NETWORK, "--ranks", "2,4,8", "--sizes", "1M,64M", "--iters", 3]}, root=True, picture="network"),
    "loss": Part(6, {"loss": ["allreduce", *NETWORK, "--ranks", "2,4,8", "--sizes", "64M", "--loss", "0.001,0.01", "--iters", 3,
                              "--backends", "switchml"]}, root=True),
    "hosts": Part(2, {"hosts-1": ["allreduce", *NETWORK, "--ranks", 2, "--sizes", "16M", "--iters", 5, "--backends", "switchml"],
                      "hosts-4": ["allreduce", *NETWORK, "--ranks", 8, "--per-host", 4, "--sizes", "16M", "--iters", 5,
                                  "--backends", "switchml"]}, root=True),
    "ddp": Part(3, {"ddp": ["ddp", "--model", "bert", "--scale", 0.03, "--ranks", 4, "--rate", 100, "--balance"]}, root=True),
    "switch": Part(1, {"switch": ["switch", "--payload", 8192]}, root=True),
}


def program(name):
    """The start of a command, or None where this tree lacks the benchmark."""
    if name == "micro":
        built = repository.built("benchmarks/micro/bench_micro")
        return [built] if built.exists() else None
    return [sys.executable, BENCHMARKS / name] if (BENCHMARKS / name / "__main__.py").exists() else None


def command(arguments, out):
    """With the JSON file that it writes; None as of program()."""
    start = program(arguments[0])
    return start and [*map(str, start), *map(str, arguments[1:]), "--json", str(out)]
