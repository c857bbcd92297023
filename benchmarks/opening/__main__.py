"""How long a group takes to open, over switchml and over Gloo in turns, and what that asks of the job's store.

    python benchmarks/opening --ranks 8,32,128 --trials 7 --json out/opening.json

Ranks are forks of a process that has imported PyTorch and loaded switchml. Each has had a group of itself alone, and
holds a connection to the store. They begin at once: a time is that of the last rank. "open" is init_process_group,
"used" the end of a first all_reduce of it, which is verified; "new_group" and "its use" are the same of a second group
of all ranks. CPU is that of all ranks until the first use. The store's reads and writes are counted in a trial of its
own, whose time does not count. With --hosts the ranks are
spread over so many network namespaces (as root). With --light they are processes without PyTorch (main.cc), whose store
is a folder in memory: of switchml alone, up to 1,024.
"""

import argparse
import contextlib
import json
import pathlib
import statistics
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "common"))
import options  # noqa: E402
import places  # noqa: E402
import report  # noqa: E402
import repository  # noqa: E402

import lab  # noqa: E402

STEPS = ("open", "used", "new_group", "its use", "CPU")
COUNTS = ("reads", "writes", "read_bytes", "written_bytes")


def parse():
    parser = argparse.ArgumentParser(
        prog="benchmarks/opening", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ranks = options.list_of(options.number(2, 1024, int, " ranks"))
    parser.add_argument("--ranks", type=ranks, default=[8, 32], help="default: 8,32")
    parser.add_argument("--hosts", type=options.number(1, 64, int), default=1, help="default: 1")
    parser.add_argument("--trials", type=options.number(1, 1000, int), default=7, help="of each backend; default: 7")
    parser.add_argument(
        "--backends",
        type=options.list_of(options.backend),
        default=list(options.BACKENDS),
        help="default: switchml,gloo; a ratio is that of the first two",
    )
    parser.add_argument("--light", action="store_true", help="ranks without PyTorch, which switchml alone can have")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures here")
    arguments = parser.parse_args()
    if arguments.light:
        arguments.backends = ["switchml"]
    return arguments


@contextlib.contextmanager
def hosts(count):
    """Namespaces around a bridge; one host is that of this process."""
    if count == 1:
        yield [None], {}
        return
    with tempfile.TemporaryDirectory(prefix="switchml-bench-") as folder, lab.Lab(pathlib.Path(folder)) as made:
        bridge = made.make_bridge("b")
        yield (
            [made.make_host(bridge, f"h{host}", "data", f"10.79.0.{host + 1}") for host in range(count)],
            {"GLOO_SOCKET_IFNAME": "data", "SWITCHML_INTERFACE": "data"},
        )


def run_light(ranks, arguments):
    """As run(), of what bench_opening prints."""
    program = repository.built("benchmarks/opening/bench_opening")
    trials = []
    with hosts(arguments.hosts) as (places_of, _):
        namespaces = [f"/run/netns/{name}" for name in places_of if name]
        for _ in range(arguments.trials):
            with tempfile.TemporaryDirectory(prefix="switchml-bench-", dir="/dev/shm") as folder:
                trials.append(json.loads(lab.run(program, ranks, folder, *namespaces)))
    counts = {what: int(statistics.median(trial[what] for trial in trials)) for what in (*COUNTS, "memory")}
    return {"ranks": ranks, "hosts": arguments.hosts, "store": {"switchml": counts}, "trials": {"switchml": trials}}


def run(ranks, arguments):
    if arguments.light:
        return run_light(ranks, arguments)
    import trial

    trials = {name: [] for name in arguments.backends}
    with hosts(arguments.hosts) as (places_of, settings):
        counts = {name: trial.counted(name, ranks, places_of, settings) for name in arguments.backends}
        for turn in range(arguments.trials):
            for name in sorted(arguments.backends, reverse=turn % 2 == 1):
                trials[name].append(trial.timed(name, ranks, places_of, settings))
    return {"ranks": ranks, "hosts": arguments.hosts, "torch": trial.TORCH, "store": counts, "trials": trials}


def median(measured, backend, what):
    return statistics.median(trial[what] for trial in measured["trials"][backend])


def show(measured):
    backends = list(measured["trials"])
    where = "one host" if measured["hosts"] == 1 else f"{measured['hosts']} hosts"
    print(f"\nopening {measured['ranks']} ranks on {where}, torch {measured.get('torch', 'not there')}")
    rows = []
    for what in STEPS:
        if what not in measured["trials"][backends[0]][0]:
            continue
        times = [median(measured, name, what) for name in backends]
        ratio = f"{times[0] / times[1]:.2f}" if len(times) > 1 else "-"
        rows.append([what, *map(report.format_seconds, times), ratio])
    for what in COUNTS:
        rows.append(
            [f"store: {what.replace('_', ' ')}", *(str(measured["store"][name][what]) for name in backends), "-"]
        )
    if "memory" in measured["store"][backends[0]]:
        rows.append(["memory of all", report.format_bytes(measured["store"][backends[0]]["memory"]), "-"])
    report.print_columns(["", *backends, "ratio"], rows)
    sys.stdout.flush()


def main():
    return repository.measure("opening", parse(), run, show)


if __name__ == "__main__":
    places.run(main)
