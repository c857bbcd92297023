"""What `make bench` runs: parts, each of commands that write a JSON file each. Sizes and rates are those of the targets
(table.py)."""

import dataclasses
import pathlib
import sys

import repository

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent
RATE = "rate"  # in a command: Mbit/s of a link at which this machine is not the limit of 8 ranks and all that their network is made of
FULL_RATE = 50  # where minutes are counted
NETWORK = ["--network", "--rate", RATE]
EVERY_HOST = [*NETWORK, "--no-switch"]
WITHOUT_LIMIT = ["--network", "--no-switch", "--rate", "none", "--offload"]
# The rate is the highest of these at which so much of the processors' time is used at most; the last one, if there is
# none.
TRIAL_RATES = (250, 100, 50, 35, 25, 18, 12)
TRIAL_BUSY = 0.65
TRIAL = [
    "allreduce",
    "--network",
    "--no-switch",
    "--rate",
    ",".join(map(str, TRIAL_RATES)),
    "--ranks",
    8,
    "--sizes",
    "4M",
    "--iters",
    2,
]
BUILT = ("micro", "memory")  # programs; the others are packages


@dataclasses.dataclass(frozen=True)
class Part:
    minutes: float  # on two cores, about
    commands: dict  # {name of the JSON file without its suffix: arguments, the benchmark first}
    network: bool = False  # makes one
    picture: str = ""  # of all its files
    figures: tuple = ()  # of docs/figures, likewise: what benchmarks/plot draws bandwidth against
    memory: str = "memory"  # the file that has the limit of one host, of this part or another
    by_default: bool = True


# The figures of the documentation: one host at two ranks, which have a core each; hosts around a switch, whose links
# are slow enough for this machine to carry all of them. The other numbers of ranks at the largest size alone.
FIGURES_ONE_HOST = ["allreduce", "--seconds", 3]
FIGURES_SWITCH = ["allreduce", "--network", "--rate", 25, "--seconds", 2]

SPARSE = [
    *["allreduce", "--network", "--no-switch", "--sizes", "16M", "--zeros", "0,0.9,0.99"],
    *["--iters", 3, "--backends", "switchml"],
]


def racks(topology):
    folder = BENCHMARKS / "planning"
    return [
        "planning",
        "--topology",
        folder / f"{topology}.yaml",
        "--jobs",
        folder / "eight_workers.yaml",
        "--ways",
        "nearest",
        "--unit",
        20,
        "--size",
        "4M",
        "--iters",
        5,
    ]


PARTS = {
    "kernels": Part(1, {"kernels": ["micro"], "memory": ["memory"]}),
    "latency": Part(2, {"latency": ["latency", "--ranks", "2,4,8", "--sizes", "4K,64K,1M"]}),
    "status": Part(0.5, {"status": ["status", "--ranks", "2,32", "--trials", 50]}),
    "serving": Part(2, {"serving": ["serving", "--ranks", "2,4", "--gaps", "0,200", "--seconds", 0.15]}),
    "small-network": Part(
        1,
        {
            "small-network": [
                "allreduce",
                "--network",
                "--no-switch",
                "--rate",
                250,
                "--ranks",
                "2,4,8",
                "--sizes",
                "4K,64K",
                "--iters",
                300,
            ],
            "small-hosts": [
                "allreduce",
                *WITHOUT_LIMIT,
                "--ranks",
                "2,4",
                "--types",
                "bfloat16",
                "--sizes",
                "48K",
                "--iters",
                300,
            ],
        },
        network=True,
    ),
    "one-host": Part(
        2.5,
        {"one-host": ["allreduce", "--ranks", "2,4,8", "--sizes", "1M,16M,100M", "--seconds", 1.5]},
        picture="one-host",
    ),
    "arena": Part(
        0.5, {"arena": ["allreduce", "--ranks", "2,4,8", "--sizes", "100M", "--backends", "switchml", "--arena"]}
    ),
    "in-place": Part(
        0.5,
        {
            "in-place": [
                "serving",
                "--backends",
                "switchml,arena,in_place",
                "--ranks",
                "2,4",
                "--types",
                "float32",
                "--sizes",
                "16M,100M",
                "--gaps",
                0,
                "--seconds",
                0.5,
            ]
        },
    ),
    "movements": Part(
        1,
        {
            "movements": [
                "movements",
                "--ranks",
                "2,4,8",
                "--sizes",
                "4K,1M,64M",
                "--seconds",
                0.5,
                "--collectives",
                "broadcast,all_gather_into_tensor,all_to_all_single,reduce_scatter_tensor",
            ]
        },
    ),
    "movements-network": Part(
        3,
        {
            "movements-network": [
                "movements",
                "--network",
                "--no-switch",
                "--rate",
                250,
                "--ranks",
                "2,4,8",
                "--sizes",
                "4M",
                "--seconds",
                3,
                "--collectives",
                "broadcast,all_gather_into_tensor,reduce_scatter_tensor,one_after_another,together",
            ]
        },
        network=True,
    ),
    "hooks": Part(
        2,
        {
            f"hooks-{transport}": ["hooks", "--size", "8M", "--steps", 2, "--rate", 35, "--transport", transport]
            for transport in ("udp", "tcp")
        },
        network=True,
    ),
    "every-host": Part(
        6,
        {
            file: [
                "allreduce",
                *EVERY_HOST,
                "--ranks",
                "2,4,8",
                "--types",
                "float32,bfloat16,float64",
                "--sizes",
                size,
                "--iters",
                calls,
            ]
            for file, size, calls in (("every-host-1M", "1M", 15), ("every-host-16M", "16M", 3))
        },
        network=True,
        picture="every-host",
    ),
    "loss": Part(
        3,
        {
            "loss": [
                "allreduce",
                *EVERY_HOST,
                "--ranks",
                "2,4,8",
                "--sizes",
                "16M",
                "--loss",
                "0.001,0.01",
                "--iters",
                3,
                "--backends",
                "switchml",
            ],
            "loss-tcp": [
                "allreduce",
                *EVERY_HOST,
                "--ranks",
                "2,4,8",
                "--sizes",
                "4M",
                "--loss",
                "0.001,0.01",
                "--iters",
                3,
                "--transport",
                "tcp",
            ],
        },
        network=True,
    ),
    "hosts": Part(
        0.7,
        {
            "hosts": [
                "allreduce",
                *EVERY_HOST,
                "--ranks",
                8,
                "--per-host",
                4,
                "--sizes",
                "16M",
                "--iters",
                3,
                "--backends",
                "switchml",
            ]
        },
        network=True,
    ),
    "network": Part(
        4,
        {
            "network": [
                "allreduce",
                *NETWORK,
                "--ranks",
                "2,4,8",
                "--sizes",
                "8M,16M",
                "--types",
                "float32,bfloat16",
                "--iters",
                3,
            ]
        },
        network=True,
        picture="network",
    ),
    "zero-blocks": Part(
        1.4,
        {
            "zero-blocks-tcp": [*SPARSE, "--rate", 100, "--ranks", 2, "--transport", "tcp"],
            "zero-blocks-udp": [*SPARSE, "--rate", 100, "--ranks", 2, "--transport", "udp"],
            "zero-blocks": [*SPARSE, "--rate", 50, "--ranks", "4,8", "--transport", "tcp"],
        },
        network=True,
    ),
    "widths": Part(0.5, {"widths": ["widths", "--types", "bfloat16", "--data", "normal,gradients", "--bits", "auto"]}),
    "encryption": Part(
        1, {"encryption": ["encryption", "--rates", "100,none", "--sizes", "1M,4M", "--rounds", 3]}, network=True
    ),
    "cpu": Part(
        1, {"cpu": ["allreduce", *WITHOUT_LIMIT, "--ranks", "2,4,8", "--sizes", "16M", "--iters", 20]}, network=True
    ),
    "ddp": Part(
        4, {"ddp": ["ddp", "--model", "bert", "--scale", 0.03, "--ranks", 4, "--rate", 50, "--balance"]}, network=True
    ),
    "sharded": Part(
        4,
        {
            "sharded": [
                "ddp",
                "--sharded",
                "--no-switch",
                "--model",
                "bert",
                "--scale",
                0.03,
                "--ranks",
                4,
                "--rate",
                50,
                "--balance",
            ]
        },
        network=True,
    ),
    "switch": Part(1, {"switch": ["switch", "--payload", 8192]}, network=True),
    "sharing": Part(2, {"sharing": ["sharing", "--control", "cubic"]}, network=True),
    "planning": Part(5, {"planning": ["planning"]}, network=True),
    "racks": Part(1, {f"racks-{name}": racks(name) for name in ("one_switch", "two_racks")}, network=True),
    "figures": Part(
        5,
        {
            "figures-sizes": [*FIGURES_ONE_HOST, "--ranks", 2, "--sizes", "4K,16K,64K,256K,1M,4M,16M,64M"],
            "figures-ranks": [*FIGURES_ONE_HOST, "--ranks", "4,8", "--sizes", "64M"],
            "figures-switch-sizes": [*FIGURES_SWITCH, "--ranks", 8, "--sizes", "4K,16K,64K,256K,1M,4M"],
            "figures-switch-ranks": [*FIGURES_SWITCH, "--ranks", "2,4", "--sizes", "4M"],
            "figures-memory": ["memory", "--mib", 64],
        },
        network=True,
        figures=("size", "ranks"),
        memory="figures-memory",
        by_default=False,
    ),
}

DEFAULT = [name for name, part in PARTS.items() if part.by_default]


def program(name):
    """The start of a command, or None where this tree lacks the benchmark."""
    if name in BUILT:
        built = repository.built(f"benchmarks/micro/bench_{name}")
        return [built] if built.exists() else None
    return [sys.executable, BENCHMARKS / name] if (BENCHMARKS / name / "__main__.py").exists() else None


def command(arguments, out, rate=None):
    """With the JSON file that it writes, and the rate in its place; None as of program()."""
    start = program(arguments[0])
    return start and [*map(str, start), *(str(rate if a == RATE else a) for a in arguments[1:]), "--json", str(out)]


def needs_rate(part):
    return any(RATE in arguments for arguments in part.commands.values())


def rate_of_trial(content):
    """Of the file that TRIAL has written."""
    busy = {run["rate"]: max(used["busy"] for used in run["rows"][0]["machine"].values()) for run in content["runs"]}
    return next((rate for rate in TRIAL_RATES if busy[rate] <= TRIAL_BUSY), TRIAL_RATES[-1])
