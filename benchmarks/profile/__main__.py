"""Where each byte's time goes: instructions and estimated cycles of every stage of an all-reduce, counted by callgrind.

    python benchmarks/profile --json out/profile.json

Ranks and switch run in one thread of one program (main.cc), so that counts are those of the code and not of chance: two
runs differ by less than 1 %, of the in-process and the memory path by nothing. What ranks and what the switch execute
is counted in runs of their own.

    inproc   engine and software switch, frames through queues of the process
    udp      the same over UDP on the loopback interface; with the system calls, whose insides are not in the counts,
             and, from a run without callgrind, the part of CPU time that they take
    rdma     the same over cards that are not there (tests/rdma/fake_verbs.cc), whose own instructions are left out, of
             tensors that cards reach; always exact
    memory   ranks that share memory

Cycles are estimated from a simulation of caches (32 KiB each, 8 ways; behind them 1 MiB, 16 ways) and of branches:
instructions, and 10 for each miss of L1 and each wrong guess, and 100 for each miss of the last. What a
processor fetches ahead costs it less. callgrind knows AVX2 but not AVX-512.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "common"))
import callgrind  # noqa: E402
import options  # noqa: E402
import report  # noqa: E402
import repository  # noqa: E402
import stages  # noqa: E402

PATHS = ("inproc", "udp", "rdma", "memory")
SIDES = {name: ("ranks", "switch") if name != "memory" else ("ranks",) for name in PATHS}
#: Copies by vectors: an instruction that copies any number of bytes would count as one.
COPIES = {"GLIBC_TUNABLES": f"glibc.cpu.x86_rep_movsb_threshold={1 << 30}"}
SIMULATION = ["--cache-sim=yes", "--branch-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=1048576,16,64"]
FIRST_MISSES, LAST_MISSES, WRONG_GUESSES = ("I1mr", "D1mr", "D1mw"), ("ILmr", "DLmr", "DLmw"), ("Bcm", "Bim")
NOTHING = dict.fromkeys(("Ir", *FIRST_MISSES, *LAST_MISSES, *WRONG_GUESSES), 0.0)
TIMED_BYTES, TIMED_RUNS = (
    1 << 27,
    5,
)  # that ranks reduce in a run without callgrind, half a second or so; how many of those
PATIENCE = 900  # seconds for one run


def cycles(events):
    return (
        events["Ir"]
        + 10 * sum(events[name] for name in FIRST_MISSES + WRONG_GUESSES)
        + 100 * sum(events[name] for name in LAST_MISSES)
    )


def execute(command, environment):
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=PATIENCE, env={**os.environ, **environment}
    )
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(map(str, command))}: status {done.returncode}\n{done.stderr.strip()[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def count(program, side, arguments, environment):
    """What bench_profile says of itself, and {stage: {event: count}} of one side."""
    with tempfile.TemporaryDirectory(prefix="switchml-profile-") as folder:
        out = pathlib.Path(folder) / "callgrind.out"
        measured = execute(
            [
                "valgrind",
                "--tool=callgrind",
                f"--callgrind-out-file={out}",
                "--collect-systime=yes",
                f"--toggle-collect=switchml_profile_{side}",
                *SIMULATION,
                program,
                *arguments,
            ],
            environment,
        )
        try:
            profile = callgrind.read(out.read_text())
        except callgrind.FormatError as error:
            sys.exit(f"error: what callgrind wrote: {error}")
    found = callgrind.attribute(profile, stages.stage_of)
    found.pop(stages.CARD, None)
    return measured, {stage: dict(zip(profile.events, costs)) for stage, costs in found.items()}


def profile(program, path, ranks, payload, size, environment, exact=False, verbs=None):
    """One run of the JSON file: path, shape, and {side: {stage: {event: count}}}."""
    arguments = ["--path", path, "--ranks", ranks, "--payload", payload, "--bytes", size]
    arguments += ["--exact"] if exact and path != "memory" else []
    arguments += ["--verbs", verbs] if path == "rdma" else []
    found = {side: count(program, side, arguments, environment) for side in SIDES[path]}
    measured = found["ranks"][0]
    if any(one["retransmissions"] for one, _ in found.values()):
        sys.exit(f"error: {path}, {ranks} ranks, payload {payload}: packets were lost and sent again: {measured}")
    run = {
        name: measured[name]
        for name in ("path", "ranks", "chunk_bytes", "slots", "bytes", "calls", "kernels", "chunks", "packets")
    }
    run["stages"] = {side: counted for side, (_, counted) in found.items()}
    if path == "udp":
        calls = max(1, TIMED_BYTES // (size * ranks))
        timed = [execute([program, *arguments, "--calls", calls], environment) for _ in range(TIMED_RUNS)]
        run["timed"] = [
            {name: one[name] for name in ("calls", "user_seconds", "system_seconds", "retransmissions")}
            for one in timed
        ]
    return run


# ---- tables ----


def bottleneck(stages_of_side):
    """The stage with the most estimated cycles."""
    return max(stages_of_side, key=lambda stage: cycles(stages_of_side[stage]))


def side_rows(run, side):
    """Lines of a table, by estimated cycles, with their sum; per chunk of a rank and per byte of its tensor."""
    counted = run["stages"][side]
    whole = {event: sum(stage[event] for stage in counted.values()) for event in next(iter(counted.values()))}
    rank_bytes = run["ranks"] * run["bytes"] * run["calls"]
    rows = []
    for name, events in [*sorted(counted.items(), key=lambda item: -cycles(item[1])), ("together", whole)]:
        if cycles(events) < 0.0005 * cycles(whole):
            continue
        spent = cycles(events)
        rows.append(
            [
                side,
                name,
                f"{events['Ir'] / run['chunks']:.0f}",
                f"{events['Ir'] / rank_bytes:.3f}",
                f"{spent / run['chunks']:.0f}",
                f"{spent / rank_bytes:.3f}",
                f"{spent / cycles(whole):.1%}",
                f"{events['sysCount'] / run['chunks']:.3f}",
            ]
        )
    return rows


HEADINGS = ["of", "stage", "instructions/chunk", "/byte", "cycles/chunk", "/byte", "of cycles", "system calls/chunk"]


def print_run(run):
    payload = f"chunks of {report.format_bytes(run['chunk_bytes'])}"
    print(
        f"\n{run['path']}: {run['ranks']} ranks, {report.format_bytes(run['bytes'])} each, {payload}, {run['slots']} slots, kernels "
        f"{run['kernels']}; {run['chunks'] // run['ranks']} chunks per rank"
    )
    report.print_columns(HEADINGS, [row for side in run["stages"] for row in side_rows(run, side)])
    print("next bottleneck: " + "; ".join(f"{side}: {bottleneck(counted)}" for side, counted in run["stages"].items()))
    if "timed" in run:
        parts = sorted(one["system_seconds"] / (one["user_seconds"] + one["system_seconds"]) for one in run["timed"])
        print(
            f"without callgrind, {len(parts)} times {run['timed'][0]['calls']} calls: system calls take {statistics.median(parts):.0%} of the "
            f"CPU time ({parts[0]:.0%} to {parts[-1]:.0%})"
        )
    sys.stdout.flush()


def print_markdown(runs):
    """The tables of benchmarks/results/: a row per stage, three columns per run."""
    for side in ("ranks", "switch"):
        those = [run for run in runs if side in run["stages"]]
        if not those:
            continue
        tables = [{row[1]: row for row in side_rows(run, side)} for run in those]
        names = sorted(
            set().union(*tables),
            key=lambda name: (name == "together", -cycles(those[-1]["stages"][side].get(name, NOTHING))),
        )
        print(
            f"\n| {side} | "
            + " | ".join(
                f"{run['path']}, {run['ranks']} ranks, {run['chunk_bytes']} B: instructions | cycles | /byte"
                for run in those
            )
            + " |"
        )
        print("|---" * (1 + 3 * len(those)) + "|")
        for name in names:
            cells = [
                f"{int(row[2]):,} | {int(row[4]):,} | {float(row[5]):.2f}" if row else " | | "
                for row in (found.get(name) for found in tables)
            ]
            print(f"| {name} | " + " | ".join(cells) + " |")


def largest_difference(first, second):
    """Of two runs of the same: the largest relative difference of a side's instructions or cycles."""
    worst = 0.0
    for side in first["stages"]:
        for measure in (cycles, lambda events: events["Ir"]):
            one, other = (sum(map(measure, run["stages"][side].values())) for run in (first, second))
            worst = max(worst, abs(one - other) / one)
    return worst


# ---- command line ----


def path_name(text):
    return text if text in PATHS else options.refuse(text, " or ".join(PATHS))


def parse():
    parser = argparse.ArgumentParser(
        prog="benchmarks/profile", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--paths",
        type=options.list_of(path_name),
        default=["inproc", "udp", "memory"],
        help="default: inproc,udp,memory",
    )
    parser.add_argument("--ranks", type=options.list_of(options.number(1, 16, int)), default=[2], help="default: 2")
    parser.add_argument(
        "--payload",
        type=options.list_of(options.payload),
        default=[1024, 8192],
        help="bytes of a packet's payload, not of memory; default: 1024,8192",
    )
    parser.add_argument("--bytes", type=options.byte_size, default=4 << 20, help="of a rank's tensor; default: 4M")
    parser.add_argument("--exact", action="store_true", help="floats travel as they are, not as integers")
    parser.add_argument(
        "--verbs",
        type=pathlib.Path,
        default=repository.built("tests/rdma/libibverbs.so.1"),
        help="of rdma: what stands for libibverbs; default: that of the build folder",
    )
    parser.add_argument(
        "--kernels",
        default="avx2" if os.uname().machine == "x86_64" else "auto",
        help="SWITCHML_KERNELS; default: avx2 on x86-64, else auto",
    )
    parser.add_argument(
        "--twice", action="store_true", help="count everything twice, and print by how much that differs"
    )
    parser.add_argument(
        "--markdown", action="store_true", help="print the tables once more, as benchmarks/results/ has them"
    )
    parser.add_argument(
        "--program",
        type=pathlib.Path,
        default=repository.built("benchmarks/profile/bench_profile"),
        help="bench_profile; default: that of the build folder",
    )
    parser.add_argument("--json", type=pathlib.Path, help="write all counts here")
    arguments = parser.parse_args()
    if "auto" in arguments.payload:
        parser.error("--payload auto is not allowed: use numbers")
    return arguments


def check(program):
    if shutil.which("valgrind") is None:
        sys.exit("error: valgrind is not on PATH: apt-get install valgrind")
    if not os.access(program, os.X_OK):
        sys.exit(f"error: {program} is not there: make setup, or --program FILE")


def main():
    arguments = parse()
    check(arguments.program)
    environment = {"SWITCHML_KERNELS": arguments.kernels, **(COPIES if arguments.exact else {})}
    content = {**repository.circumstances("profile"), "runs": []}
    for path in arguments.paths:
        for ranks in arguments.ranks:
            for payload in arguments.payload if path != "memory" else arguments.payload[:1]:
                shape = (
                    arguments.program, path, ranks, payload, arguments.bytes, environment, arguments.exact, arguments.verbs,
                )  # fmt: skip
                content["runs"].append(profile(*shape))
                print_run(content["runs"][-1])
                if arguments.twice:
                    print(
                        f"a second time: {largest_difference(content['runs'][-1], profile(*shape)):.4%} of difference"
                    )
    if arguments.markdown:
        print_markdown(content["runs"])
    if arguments.json:
        repository.write(arguments.json, content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
