"""A branch against its base, interleaved in one run."""

import json
import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import time

import report
import repository
import trees

SUBJECTS = ("core", "allreduce")
PATIENCE = 600  # seconds for one program
# Of bench_profile: what it takes, and how often a call is repeated so that a turn takes some tenths of a second.
CORE = [
    (path, ranks, payload, size, max(1, (96 << 20) // (ranks * size)))
    for path, ranks, payload in (
        ("memory", 2, 0),
        ("memory", 8, 0),
        ("udp", 2, 1024),
        ("udp", 4, 8192),
        ("inproc", 2, 1024),
    )
    for size in (64 << 10, 4 << 20)
]
COUNTED = [case[:4] + (1,) for case in CORE if case[3] > 1 << 20]  # by callgrind, where it is


def core_arguments(case):
    path, ranks, payload, size, calls = case
    return [
        "--path",
        path,
        "--ranks",
        ranks,
        "--bytes",
        size,
        "--calls",
        calls,
        *(["--payload", payload] if payload else []),
    ]


def core_name(case):
    path, ranks, payload, size, _ = case
    return f"{path}, {ranks} ranks" + (f", payload {payload}" if payload else "") + f", {report.format_bytes(size)}"


def answer_of(command, who, **environment):
    """The JSON object that a program says last. A program that fails is the branch's fault, or the base's, whose
    results nobody needs."""
    status, output = trees.run(command, PATIENCE, env={**os.environ, **environment})
    if status == 0:
        return json.loads(output.strip().splitlines()[-1])
    problem = f"{who}: {' '.join(map(str, command))}: {'takes too long' if status is None else f'status {status}'}\n{output[-trees.TAIL :]}"
    raise (trees.Broken if who == "branch" else trees.NothingToCompare)(problem)


# ---- rounds ----


def in_turns(groups, measure, rounds, limit):
    """[{case: (base, branch)}], one per round. measure(side, group) is {case: seconds}; side 0 is the base. Sides
    alternate group by group, and who comes first round by round."""
    found, begin = [], time.monotonic()
    for number in range(rounds):
        if number and time.monotonic() - begin > limit:
            print(f"{limit:.0f} s are over: {number} rounds of {rounds}")
            break
        found.append({})
        for group in groups:
            order = (0, 1) if number % 2 == 0 else (1, 0)
            sides = {side: measure(side, group) for side in order}
            found[-1].update({case: (sides[0][case], sides[1][case]) for case in sides[0]})
    return found


def summary(rounds):
    """{case: (median base, median branch, median, lowest and highest ratio)}"""
    result = {}
    for case in rounds[0]:
        pairs = [each[case] for each in rounds]
        ratios = sorted(branch / base for base, branch in pairs)
        result[case] = (*map(statistics.median, zip(*pairs)), statistics.median(ratios), ratios[0], ratios[-1])
    return result


def print_summary(rounds, name, instructions):
    rows = []
    for case, (base, branch, ratio, lowest, highest) in summary(rounds).items():
        counted = instructions.get(name(case))
        rows.append(
            [
                name(case),
                report.format_seconds(base),
                report.format_seconds(branch),
                f"{ratio:.3f}",
                f"{lowest:.3f}",
                f"{highest:.3f}",
                f"{counted:.4f}" if counted else "-",
            ]
        )
    report.print_columns(["what", "base p50", "branch p50", "branch/base", "lowest", "highest", "instructions"], rows)
    sys.stdout.flush()


# ---- what is compared ----


def compare_core(programs, arguments):
    """CPU time of a call: user and system, all ranks and the switch. programs: base's, branch's."""

    def measure(side, case):
        spent = answer_of([programs[side], *core_arguments(case)], ("base", "branch")[side])
        return {case: (spent["user_seconds"] + spent["system_seconds"]) / spent["calls"]}

    rounds = in_turns(CORE, measure, arguments.rounds, arguments.limit)
    print(
        f"CPU time of an all-reduce, all ranks and the switch in one thread, medians of {len(rounds)} rounds; results verified"
    )
    print_summary(rounds, core_name, instruction_ratios(programs))


def instruction_ratios(programs):
    """{name: branch's instructions over the base's}: the same in every run, whatever else the machine does. Empty
    without valgrind."""
    if shutil.which("valgrind") is None:
        print("instructions are not compared: valgrind is not on PATH")
        return {}
    ratios = {}
    with tempfile.TemporaryDirectory(prefix="switchml-compare-") as folder:
        for case in COUNTED:
            counts = []
            for program, who in zip(programs, ("base", "branch")):
                out = pathlib.Path(folder) / "out"
                answer_of(
                    [
                        "valgrind",
                        "--tool=callgrind",
                        "-q",
                        f"--callgrind-out-file={out}",
                        "--toggle-collect=switchml_profile_ranks",
                        "--toggle-collect=switchml_profile_switch",
                        program,
                        *core_arguments(case),
                    ],
                    who,
                )
                totals = next(line for line in out.read_text().splitlines() if line.startswith(("summary:", "totals:")))
                counts.append(int(totals.split()[1]))
            ratios[core_name(case)] = counts[1] / counts[0]
    return ratios


def compare_allreduce(sides, arguments):
    """sides: (tree, build folder) of base and branch. The benchmark is the branch's, the module each side's own."""
    with tempfile.TemporaryDirectory(prefix="switchml-compare-") as folder:
        out = pathlib.Path(folder) / "out.json"

        def measure(side, _):
            command = [
                sys.executable,
                repository.ROOT / "benchmarks" / "allreduce",
                "--backends",
                "switchml",
                "--seconds",
                "0.5",
                "--json",
                out,
                "--ranks",
                ",".join(map(str, arguments.ranks)),
                "--sizes",
                ",".join(map(str, arguments.sizes)),
            ]
            status, output = trees.run(command, PATIENCE, env={**os.environ, **trees.python_path(*sides[side])})
            if status != 0:
                raise (trees.Broken if side else trees.NothingToCompare)(
                    f"{('base', 'branch')[side]}: {output[-trees.TAIL :]}"
                )
            return {
                (run["ranks"], row["bytes"]): report.median(row, backend) for run, row, backend in report.rows_of(out)
            }

        rounds = in_turns([None], measure, arguments.rounds, arguments.limit)
    print(f"all-reduce over PyTorch, medians of {len(rounds)} rounds; results verified")
    print_summary(rounds, lambda case: f"{case[0]} ranks, {report.format_bytes(case[1])}", {})


def check_module(tree, build_folder, who):
    """That Python takes the module of this tree and no other."""
    status, output = trees.run(
        [sys.executable, "-c", "import switchml; print(switchml.__file__)"],
        120,
        cwd="/",
        env={**os.environ, **trees.python_path(tree, build_folder)},
    )
    if status != 0 or not output.strip().splitlines()[-1].startswith(str(build_folder)):
        raise (trees.Broken if who == "branch" else trees.NothingToCompare)(
            f"{who}: its module is not in {build_folder}:\n{output[-trees.TAIL :]}"
        )


# ---- both sides ----


def prepare_branch(with_torch, seconds):
    """The branch's build folder: the one that is there, brought up to date, or one of its own."""
    folder = repository.built("")
    targets = [] if with_torch else ["bench_profile"]
    if with_torch and not (folder / "build.ninja").exists():
        raise trees.Broken("there is no build of this tree: make setup")
    if not (folder / "build.ninja").exists():
        folder = repository.ROOT / "build-compare"
    said = trees.build(repository.ROOT, folder, targets, time.monotonic() + seconds, with_torch, sys.executable)
    if said is not None:
        raise trees.Broken(f"the branch does not build:\n{said}")
    return folder


def prepare_base(arguments, folder):
    """(tree, build folder, name)"""
    with_torch = arguments.what == "allreduce"
    if trees.is_tree(arguments.base):
        tree = pathlib.Path(arguments.base).resolve()
        if with_torch or (tree / "build" / trees.PROGRAM).exists():
            return tree, tree / "build", str(tree)
        raise trees.NothingToCompare(
            f"--base {arguments.base}: {tree / 'build' / trees.PROGRAM} is not there: build it"
        )
    revision = trees.merge_base() if arguments.base == "auto" else arguments.base
    tree = folder / "base"
    commit = trees.unpack(revision, tree)
    print(f"building the base, {commit[:12]}", flush=True)
    targets = [] if with_torch else ["bench_profile"]
    end = time.monotonic() + arguments.build_limit
    return tree, trees.build_base(tree, targets, end, with_torch, sys.executable), commit[:12]


def compare(arguments):
    """The exit status."""
    try:
        with tempfile.TemporaryDirectory(prefix="switchml-base-") as folder:
            tree, base, name = prepare_base(arguments, pathlib.Path(folder))
            branch = prepare_branch(arguments.what == "allreduce", arguments.build_limit)
            print(f"base {name}, branch {repository.commit() or repository.ROOT}", flush=True)
            if arguments.what == "core":
                compare_core((base / trees.PROGRAM, branch / trees.PROGRAM), arguments)
            else:
                sides = ((tree, base), (repository.ROOT, branch))
                for side, who in zip(sides, ("base", "branch")):
                    check_module(*side, who)
                compare_allreduce(sides, arguments)
    except trees.NothingToCompare as why:
        print(f"nothing is compared: {why}")
    except trees.Broken as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    return 0
