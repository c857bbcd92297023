"""Runs vector files against a data plane: python tests/vectors [FILE...] [--target NAME] [--trace]

Without files all vectors of this folder. Exit status 1 if one fails, 2 if the data plane or a file cannot be had.
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from vectors import parse, runner, targets

FOLDER = pathlib.Path(__file__).resolve().parent


def run_one(path, target, trace):
    """ "ok", "skip" or "FAIL", and why."""
    try:
        vector = parse.load(path)
        reason = target.capabilities.lacks(vector.needs)
        if reason:
            return "skip", reason
        runner.Runner(target, trace).run(vector)
    except (parse.ParseError, runner.VectorFailure) as error:
        return "FAIL", str(error)
    except targets.TargetError as error:
        return "FAIL", f"{path}: {error}"
    return "ok", ""


def main():
    parser = argparse.ArgumentParser(prog="python tests/vectors", description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=pathlib.Path, help="vector files (default: all)")
    parser.add_argument("--target", default="softswitch", choices=targets.TARGET_NAMES)
    parser.add_argument(
        "--softswitch-target", type=pathlib.Path, metavar="PATH", help="the driver in another build folder"
    )
    parser.add_argument("--trace", action="store_true", help="print every packet")
    arguments = parser.parse_args()
    reason = targets.unavailable(arguments.target)
    if reason:
        print(f"{arguments.target}: all skipped: {reason}")
        return 0
    results = []
    target = None
    try:
        target = targets.make_target(arguments.target, arguments.softswitch_target)
        for path in arguments.files or sorted(FOLDER.glob("*.txt")):
            result, why = run_one(path, target, print if arguments.trace else None)
            results.append(result)
            print(f"{result:4} {path.stem}{': ' if why else ''}{why}")
    except (targets.TargetError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    finally:
        if target:
            target.close()
    print(
        f"{target.name}: {results.count('ok')} passed, {results.count('FAIL')} failed, {results.count('skip')} skipped"
    )
    return 1 if "FAIL" in results else 0


if __name__ == "__main__":
    sys.exit(main())
