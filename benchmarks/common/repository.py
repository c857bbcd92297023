"""Where the rest of the repository is: importing this lets benchmarks import tests/lab.py, tests/netlab, and
python/switchml/_figures.py without the package."""

import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "netlab"), str(ROOT / "tests")]
sys.path.append(str(ROOT / "python" / "switchml"))

import lab  # noqa: E402


def built(path):
    """A file of the build folder, whether it is there or not."""
    return lab.build_folder() / path


def commit():
    """The commit of the working tree, with "-dirty" where it has changes; None outside of git."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"], capture_output=True, text=True
    )
    return done.stdout.strip() or None


def machine():
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def circumstances(benchmark):
    """What every JSON file begins with."""
    settings = {name: value for name, value in sorted(os.environ.items()) if name.startswith(("SWITCHML_", "GLOO_"))}
    return {
        "benchmark": benchmark,
        "date": datetime.datetime.now().isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": machine(),
        "command": sys.argv[1:],
        "environment": settings,
    }


def read(path, benchmark, option):
    """What write() wrote for that benchmark; ends the program where the file of `option` is none."""
    try:
        content = json.loads(path.read_text())
        if content["benchmark"] != benchmark:
            raise ValueError(f"it is of benchmarks/{content['benchmark']}")
        return content
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"error: {option} {path}: not a result of benchmarks/{benchmark} ({type(error).__name__}: {error})")


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"written: {path}")


def measure(benchmark, arguments, run, show, **more):
    """A whole benchmark: for each number of ranks, what run() returns is shown and kept."""
    content = {**circumstances(benchmark), **more, "runs": []}
    for ranks in arguments.ranks:
        content["runs"].append(run(ranks, arguments))
        show(content["runs"][-1])
    if arguments.json:
        write(arguments.json, content)
    return 0
