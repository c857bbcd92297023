"""The simulations of benchmarks/scale: what is run, by build/benchmarks/scale/bench_scale, and what is made of it."""

import json
import subprocess
import sys
import time

import report
import repository

WAYS = {
    "tree": "switches of a tree add",
    "ring": "ring of all",
    "leaders": "ring of racks' leaders",
    "shares": "each host adds a share",
}
# Workers: racks, hosts of a rack, racks of a pod (0: two levels of switches).
FABRICS = {64: (4, 16, 0), 256: (16, 16, 0), 1024: (32, 32, 0), 4096: (128, 32, 16), 10240: (256, 40, 16)}
PARTS = ("sizes", "loss", "jobs", "narrow", "dead")
LOSSES = (0.0001, 0.001)
JOBS = 8
HEADER_BYTES = 24 + 66  # of a frame, and of what Ethernet, IPv4 and UDP put around it


def binary():
    path = repository.built("benchmarks/scale/bench_scale")
    if not path.exists():
        sys.exit(f"error: {path} is not built: make setup")
    return path


def simulate(way, workers, **options):
    """One run. Raises ValueError where it fails, as it does where one sum of one worker is wrong."""
    racks, hosts, pod = FABRICS[workers]
    command = [str(binary()), "--way", way, "--racks", str(racks), "--hosts", str(hosts), "--pod", str(pod)]
    for name, value in options.items():
        command += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    begun = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise ValueError(f"{' '.join(command[1:])}: {done.stderr.strip()}")
    return json.loads(done.stdout) | {"options": options, "run_seconds": round(time.monotonic() - begun, 2)}


def bound(kib, payload=8192, gbps=100):
    """Seconds in which a host's link carries its tensor once: nobody who adds in one place can be faster."""
    chunks = -(-kib * 1024 // payload)
    return (kib * 1024 + chunks * HEADER_BYTES) * 8 / gbps / 1e9


def plan(arguments):
    """(part, way, workers, options) of all runs."""
    few = [workers for workers in arguments.workers if workers <= 1024]
    trees = "tree" in arguments.ways
    for part in arguments.parts:
        if part == "sizes":
            yield from ((part, way, workers, {}) for workers in arguments.workers for way in arguments.ways)
        if part == "loss":
            for workers in few:
                for loss in LOSSES:
                    yield from ((part, way, workers, {"loss": loss}) for way in arguments.ways)
        if part == "dead" and trees:
            middle = round(bound(arguments.kib) * 1000 / 2, 3)
            yield from ((part, "tree", workers, {"dies_ms": middle}) for workers in arguments.workers)
        if part == "jobs" and few:
            yield from ((part, way, few[-1], {"jobs": JOBS}) for way in arguments.ways if way != "leaders")
            if trees:
                yield part, "tree", few[-1], {"jobs": JOBS, "slots": 16}
                yield part, "tree", few[-1], {"jobs": JOBS, "spread": True}
        if part == "narrow" and few:
            yield from ((part, way, few[-1], {"oversubscription": 4}) for way in arguments.ways)


def run(arguments):
    runs = []
    for part, way, workers, options in plan(arguments):
        found = simulate(way, workers, **options, kib=arguments.kib, seed=arguments.seed)
        runs.append({"part": part} | found | {"bound": bound(arguments.kib)})
        print_run(runs[-1])
    return runs


def text_of(options):
    known = {name: value for name, value in options.items() if name not in ("kib", "seed")}
    return ", ".join(name if value is True else f"{name} {value:g}" for name, value in known.items())


def print_header():
    columns = ("workers", "ms", "x bound", "Jain", "repeats", "dropped", "run s", "MiB")
    print(f"{'part':7} {'way':8} {'with':24}" + "".join(f"{name:>10}" for name in columns))


def print_run(row):
    last = max(row["seconds"])
    fair = f"{report.jain([1 / each for each in row['seconds']]):.3f}" if len(row["seconds"]) > 1 else ""
    numbers = (
        f"{row['workers']:10}{last * 1e3:10.3f}{last / row['bound']:10.2f}{fair:>10}{row['retransmissions']:10}"
        f"{row['dropped'] + row['lost']:10}{row['run_seconds']:10.1f}{row['memory_kib'] // 1024:10}"
    )
    print(f"{row['part']:7} {row['way']:8} {text_of(row['options']):24}{numbers}", flush=True)
