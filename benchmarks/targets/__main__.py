"""Everything that the project's targets speak of, measured in one run, and the table of targets at its end.

    python benchmarks/targets                        # 20 to 90 minutes on two cores; as root for what makes a network
    python benchmarks/targets --parts network,loss   # some of it, and its targets; other files of --out count as well
    python benchmarks/targets --parts none           # no measurement: the targets of what is in --out
    python benchmarks/targets --parts figures        # the figures of docs/figures, 5 minutes; only where it is named

What cannot run here is named in the table as not measured. A target that is missed is no failure: the status is 1 only
where a part fails, by a wrong result, say.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "common"))
import options  # noqa: E402
import parts  # noqa: E402
import places  # noqa: E402
import report  # noqa: E402
import repository  # noqa: E402
import table  # noqa: E402

import lab  # noqa: E402

SLACK = 4  # times what a part takes, and it is ended
HEADINGS = ["what", "target", "measured", ""]
FIGURES = repository.ROOT / "docs" / "figures"
CLEARING = 60  # seconds in which a part that is ended must have removed its network


def part_names(text):
    return (
        []
        if text == "none"
        else options.list_of(
            lambda name: (
                name if name in parts.PARTS else options.refuse(name, f"none, or some of {', '.join(parts.PARTS)}")
            )
        )(text)
    )


def parse():
    parser = argparse.ArgumentParser(
        prog="benchmarks/targets", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", type=part_names, default=parts.DEFAULT, help=f"default: {','.join(parts.DEFAULT)}")
    parser.add_argument(
        "--rate",
        type=options.link_rate,
        help=f"Mbit/s of the links; default: of {', '.join(map(str, parts.TRIAL_RATES))} the highest at which a trial with 8 "
        f"ranks keeps the processors busy for {100 * parts.TRIAL_BUSY:.0f} percent of the time at most",
    )
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        default=pathlib.Path("out"),
        help="folder of the JSON files and pictures; default: out",
    )
    parser.add_argument(
        "--markdown", action="store_true", help="print the table once more, as benchmarks/results/ has it"
    )
    return parser.parse_args()


def why_not(part):
    """Why a part cannot run here; empty if it can."""
    if part.network and lab.missing():
        return lab.missing()
    lacking = sorted({arguments[0] for arguments in part.commands.values() if parts.program(arguments[0]) is None})
    return f"there is no benchmarks/{lacking[0]} here, or it is not built" if lacking else ""


def run(command, seconds):
    """The status; None: it took too long. However this ends, the command has been asked to clear up."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(CLEARING)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def try_rates(out):
    """Mbit/s of the links, and why there is none."""
    file = out / "trial.json"
    command = parts.command(parts.TRIAL, file)
    print(f"\n==== rate: {' '.join(command)}", flush=True)
    status = run(command, SLACK * 120)
    if status != 0:
        return (
            None,
            f"the trial of rates took longer than {SLACK * 2} minutes"
            if status is None
            else f"the trial of rates failed with status {status}",
        )
    rate = parts.rate_of_trial(json.loads(file.read_text()))
    print(f"==== rate: {rate} Mbit/s", flush=True)
    return rate, ""


def run_part(name, out, rate):
    """Empty, or what failed."""
    part = parts.PARTS[name]
    minutes = SLACK * part.minutes * (max(1, parts.FULL_RATE / rate) if parts.needs_rate(part) else 1)
    for file, arguments in part.commands.items():
        command = parts.command(arguments, out / f"{file}.json", rate)
        print(f"\n==== {name}: {' '.join(command)}", flush=True)
        status = run(command, 60 * minutes)
        if status != 0:
            return f"took longer than {minutes:g} minutes" if status is None else f"failed with status {status}"
    return draw(part, out)


def draw(part, out):
    """Empty, or what failed: a picture is no result, and without matplotlib it says so; figures are one."""
    files = [out / f"{file}.json" for file in part.commands if file != part.memory]
    memory = out / f"{part.memory}.json"
    plot = [sys.executable, HERE.parent / "plot", *files, *(["--memory", memory] if memory.exists() else [])]
    if part.picture:
        run([*plot, "--out", out / f"{part.picture}.png"], 120)
    for against in part.figures:
        if run([*plot, "--against", against, "--out", FIGURES / f"{against}.svg"], 120) != 0:
            return f"the figure of bandwidth against {against} failed"
    return ""


def run_parts(names, out, rate):
    """({file: why it was not measured}, names of the parts that failed)"""
    absent, failed, no_rate = {}, [], ""
    for name in names:
        why = why_not(parts.PARTS[name])
        if not why and parts.needs_rate(parts.PARTS[name]):
            if not rate and not no_rate:
                rate, no_rate = try_rates(out)
            failed += [name] if no_rate else []
            why = no_rate
        if not why:
            for file in parts.PARTS[name].commands:  # of an earlier run
                (out / f"{file}.json").unlink(missing_ok=True)
            begin = time.monotonic()
            why = run_part(name, out, rate)
            failed += [name] if why else []
            print(f"==== {name}: {why or 'done'}, {time.monotonic() - begin:.0f} s", flush=True)
        else:
            print(f"\n==== {name} is not measured: {why}", flush=True)
        absent |= dict.fromkeys(parts.PARTS[name].commands, why) if why else {}
    return absent, failed


def collect(out, absent):
    """All files that are there, but for those that this run could not measure."""
    files = {}
    for part in parts.PARTS.values():
        for file in part.commands:
            path = out / f"{file}.json"
            if file in absent or not path.exists():
                continue
            try:
                files[file] = json.loads(path.read_text())
            except ValueError as error:
                absent[file] = f"{path} is no JSON: {error}"
    return table.Results(files, absent)


def with_targets(chosen, results):
    """Names of the parts whose targets are shown: those that were to run, or that have left files."""
    files = results.files.keys() | results.absent.keys()
    return chosen or [name for name, part in parts.PARTS.items() if files & part.commands.keys()]


def print_markdown(rows):
    for row in [HEADINGS, ["---"] * len(HEADINGS), *rows]:
        print(f"| {' | '.join(row)} |")


def main():
    arguments = parse()
    arguments.out.mkdir(parents=True, exist_ok=True)
    absent, failed = run_parts(arguments.parts, arguments.out, arguments.rate)
    results = collect(arguments.out, absent)
    rows = table.evaluate(results, with_targets(arguments.parts, results))
    print(f"\n==== targets, {repository.machine()['processor']}, {os.cpu_count()} cores, commit {repository.commit()}")
    others = sorted(
        {content.get("commit", "unknown") or "unknown" for content in results.files.values() if "commit" in content}
        - {repository.commit()}
    )
    if others:
        print(f"some files are of other commits: {', '.join(others)}")
    if rows:
        report.print_columns(HEADINGS, rows)
    if rows and arguments.markdown:
        print_markdown(rows)
    counts = {verdict: sum(row[3] == verdict for row in rows) for verdict in ("met", "not met", "not measured")}
    left_out = len(table.LINES) - len(rows)
    print(
        ", ".join(f"{count} {verdict}" for verdict, count in counts.items()),
        *([f"({left_out} targets are of other parts)"] if left_out else []),
    )
    repository.write(
        arguments.out / "targets.json",
        {
            **repository.circumstances("targets"),
            "failed": failed,
            "rows": [dict(zip(("what", "target", "measured", "verdict"), row)) for row in rows],
        },
    )
    return 1 if failed else 0


if __name__ == "__main__":
    places.run(main)
