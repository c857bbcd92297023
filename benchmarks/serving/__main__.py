"""All-reduces as engines that serve models on CPUs call them: in place, on one host, with computation between calls.
switchml beside Gloo and beside what such engines have of their own, in the same processes, by turns.

    .ci/setup.sh clients    # once: vLLM, DeepSpeed and mpi4py in .venv-clients, which this uses where it is
    python benchmarks/serving --ranks 2,4 --json out/serving.json
    python benchmarks/serving --tokens 64 --hosts 1,2    # vLLM and DeepSpeed with a tiny model; as root for two hosts

The table has two medians: what a rank spends in a call, waiting for later ranks included, and behind it what a call
takes from when its last rank comes to when its last rank has the result. Between two calls each rank multiplies by
weights that no cache holds, for as much processor time as --gaps says, and writes its tensor. Each block is verified at
its end. `arena` is switchml with tensors of switchml.empty(). `alone` is a group of one rank: what PyTorch's own part
of a call costs. Open MPI has no bfloat16 and adds integers of 16 bits instead. Ratios are over the best of the engines'
own. `in_place`, which --backends may name, is a yardstick: ranks that add in tensors that all of them have mapped.

With --tokens each of --engines generates so many for each request instead, over two ranks, by one backend after the
other.
"""

import argparse
import functools
import itertools
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "common")]
import generation  # noqa: E402
import launch  # noqa: E402
import options  # noqa: E402
import places  # noqa: E402
import report  # noqa: E402
import repository  # noqa: E402

import lab  # noqa: E402

NEEDS = {"vllm": "vllm", "deepspeed": "deepspeed", "openmpi": "mpi4py"}  # modules of the Python that runs the ranks
OWN = ("switchml", "arena")
ENGINES = (*OWN, "alone", "gloo", *NEEDS)
YARDSTICK = "in_place"
TYPES = ("bfloat16", "float32")
CLIENTS = repository.ROOT / ".venv-clients" / "bin" / "python"
FIND = "import importlib.util, sys; print(*(name for name in sys.argv[1:] if importlib.util.find_spec(name)))"


def engine(text):
    allowed = (*ENGINES, YARDSTICK)
    return text if text in allowed else options.refuse(text, ", ".join(allowed))


def serving_engine(text):
    return text if text in generation.ENGINES else options.refuse(text, " or ".join(generation.ENGINES))


def element_type(text):
    return text if text in TYPES else options.refuse(text, " or ".join(TYPES))


def lacking(python):
    """{engine: what it needs and that Python has not}"""
    found = subprocess.run([python, "-c", FIND, *NEEDS.values()], capture_output=True, text=True, check=True).stdout
    absent = {name: module for name, module in NEEDS.items() if module not in found.split()}
    if not shutil.which("mpirun"):
        absent["openmpi"] = "mpirun"
    return absent


def parse():
    parser = argparse.ArgumentParser(
        prog="benchmarks/serving", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=options.list_of(options.rank_count), default=[2, 4], help="default: 2,4")
    parser.add_argument(
        "--sizes",
        type=options.list_of(options.byte_size),
        default=[64, 8 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20],
        help="default: 64,8K,16K,64K,256K,1M",
    )
    parser.add_argument(
        "--types", type=options.list_of(element_type), default=list(TYPES), help=f"default: {','.join(TYPES)}"
    )
    parser.add_argument(
        "--gaps",
        type=options.list_of(options.number(0, 1000000, int, " us")),
        default=[0, 200, 2000],
        help="us of computation between calls; default: 0,200,2000",
    )
    parser.add_argument(
        "--backends", type=options.list_of(engine), help=f"default: those of {', '.join(ENGINES)} that are there"
    )
    parser.add_argument(
        "--peers-python",
        type=pathlib.Path,
        help="of a virtual environment with PyTorch as here and with what vllm, deepspeed and openmpi need; default: "
        ".venv-clients where it is there, else this one",
    )
    parser.add_argument(
        "--calls", type=options.number(20, 1000000, int), default=1000, help="at most, of a backend; default: 1000"
    )
    parser.add_argument(
        "--seconds", type=options.number(0.01, 3600), default=0.3, help="at most, about, of a backend; default: 0.3"
    )
    parser.add_argument(
        "--rounds", type=options.number(1, 1000, int), default=5, help="of the backends, interleaved; default: 5"
    )
    parser.add_argument("--tokens", type=options.number(1, 400, int), help="of a request, instead of all-reduces")
    parser.add_argument(
        "--engines", type=options.list_of(serving_engine), help="that generate tokens; default: those that are there"
    )
    parser.add_argument(
        "--hosts",
        type=options.list_of(options.number(1, 2, int)),
        default=[1],
        help="of an engine's two ranks; 2 makes a network of two; default: 1",
    )
    parser.add_argument(
        "--batches",
        type=options.list_of(options.number(1, 64, int)),
        default=[1, 16, 32],
        help="requests at a time; default: 1,16,32",
    )
    parser.add_argument("--json", type=pathlib.Path, help="write all figures here")
    arguments = parser.parse_args()
    arguments.peers_python = arguments.peers_python or (CLIENTS if CLIENTS.exists() else pathlib.Path(sys.executable))
    absent = lacking(arguments.peers_python)
    arguments.absent = {name: f"{arguments.peers_python} has no {module}" for name, module in absent.items()}
    if arguments.engines is None:
        arguments.engines = [name for name in generation.ENGINES if name not in absent] or generation.ENGINES
    for name in absent.keys() & set(arguments.engines if arguments.tokens else ()):
        parser.error(f"--engines {name}: {arguments.absent[name]}")
    arguments.path = f"{lab.build_folder() / 'python'}:{os.environ.get('PYTHONPATH', '')}"
    if arguments.backends is None:
        arguments.backends = [name for name in ENGINES if name not in absent]
    else:
        for name in absent.keys() & set(arguments.backends):
            parser.error(f"--backends {name}: {arguments.absent[name]}")
    return arguments


def run(ranks, arguments):
    what = {
        name: getattr(arguments, name) for name in ("sizes", "types", "gaps", "backends", "calls", "seconds", "rounds")
    }
    return launch.run(HERE / "worker.py", ranks, what, arguments.peers_python, {"PYTHONPATH": arguments.path})


def medians(row):
    """{engine: (seconds in a call, seconds from when the last rank came)}"""
    return {
        name: (statistics.median(times), statistics.median(row["after_last"][name]))
        for name, times in row["seconds"].items()
    }


def show(measured, backends):
    print(
        f"\n{measured['ranks']} ranks of one host, torch {measured['torch']}; us, p50: in a call, after the last rank came"
    )
    rows = []
    for row in measured["rows"]:
        found = medians(row)
        best = [min((found[name][which] for name in NEEDS if name in found), default=None) for which in (0, 1)]
        rows.append(
            [row["type"], report.format_bytes(row["bytes"]), str(row["gap"])]
            + [" ".join(f"{1e6 * seconds:.1f}" for seconds in found[name]) for name in backends]
            + [
                " ".join(f"{ours / peer:.2f}" if peer else "-" for ours, peer in zip(found[name], best))
                for name in OWN
                if name in found
            ]
        )
    report.print_columns(
        ["type", "size", "gap", *backends, *(f"{name}/best" for name in OWN if name in backends)], rows
    )
    sys.stdout.flush()


def generate(arguments):
    """Tokens per second of each engine, and what it has generated."""
    content = {**repository.circumstances("serving"), "runs": []}
    how = (arguments.batches, arguments.tokens, arguments.rounds)
    for name, hosts in itertools.product(arguments.engines, arguments.hosts):
        results = generation.run(name, arguments.peers_python, arguments.path, hosts, *how)
        content["runs"].append({"engine": name, "hosts": hosts, "results": results})
        print(
            f"\n{name}, 2 ranks on {hosts} host{'s' * (hosts - 1)}, {arguments.tokens} tokens each; tokens/s, medians"
        )
        found = generation.speeds(results)
        rows = [[name, *(f"{found[name][batch]:.0f}" for batch in arguments.batches)] for name in found]
        report.print_columns(["backend", *(f"batch {batch}" for batch in arguments.batches)], rows)
        sys.stdout.flush()
    return content


def main():
    arguments = parse()
    if arguments.tokens:
        content = generate(arguments)
        if arguments.json:
            repository.write(arguments.json, content)
        return 0
    for name, why in arguments.absent.items():
        print(f"without {name}: {why}")
    shown = functools.partial(show, backends=arguments.backends)
    return repository.measure("serving", arguments, run, shown, absent=arguments.absent)


if __name__ == "__main__":
    places.run(main)
