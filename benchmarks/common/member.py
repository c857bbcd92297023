"""What the ranks of a benchmark have in common: joining, groups, counters."""

import datetime
import functools
import json
import os
import pathlib
import resource
import sys
import time

import launch
import repository  # noqa: F401  the path to tests/netlab/told.py, which the programs of ranks need

launch.end_with_parent()  # before PyTorch is imported, which takes seconds
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

TIMEOUT = datetime.timedelta(minutes=5)


def join(rank=None, size=None, store=None):
    """Joins as it is told, else as RANK SIZE STORE of the command line say. The default group is Gloo and paces the
    benchmark."""
    torch.set_num_threads(1)
    if store is None:
        rank, size, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size, timeout=TIMEOUT)


def launched():
    """Joins as a rank that launch.run has started. Returns what the benchmark told it."""
    names = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
    if names[0] not in os.environ:
        names = ("RANK", "WORLD_SIZE")
    join(*(int(os.environ[name]) for name in names), sys.argv[1])
    return json.loads(sys.argv[2])


def finish(rows):
    """The end of such a rank: rank 0 prints what launch.run returns."""
    if dist.get_rank() == 0:
        print(json.dumps({"torch": torch.__version__, "rows": rows}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def new_group(backend, payload=None, ranks=None):
    """payload: of switchml; None leaves it to the environment."""
    if backend == "switchml":
        import switchml  # noqa: F401  before PyTorch 2.5 nothing else registers the backend

        if payload is not None:
            os.environ["SWITCHML_PAYLOAD"] = str(payload)
    return dist.new_group(ranks, backend=backend, timeout=TIMEOUT)


class Pace:
    """Called by all ranks, returns to all at once: through a file, on one host without sleeping. A barrier wakes some
    of them up to 200 us later than others, or over a network that loses segments a TCP timeout later, and the others
    would take that for time of their call."""

    def __init__(self, network, store=None):
        """store: that of join(); default: of the command line"""
        path, size = (store or sys.argv[3]) + ".pace", dist.get_world_size()
        with open(path, "ab") as file:
            file.truncate(8 * size)
        self.turns = torch.from_file(path, shared=True, size=size, dtype=torch.int64)
        self.rank, self.turn = dist.get_rank(), 0
        self.wait = functools.partial(time.sleep, 5e-5) if network else os.sched_yield

    def __call__(self):
        self.turn += 1
        self.turns[self.rank] = self.turn
        end = time.monotonic() + TIMEOUT.total_seconds()
        while int(self.turns.min()) < self.turn:
            if time.monotonic() > end:
                raise TimeoutError(
                    f"not all ranks have come to call {self.turn} within {TIMEOUT.total_seconds():.0f} s: {self.turns.tolist()}"
                )
            self.wait()


def slowest(seconds):
    """Element-wise maximum over the ranks of a list of times."""
    times = torch.tensor(seconds, dtype=torch.float64)
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    return times.tolist()


def cpu_seconds():
    """Of all threads of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def switch_counters(group):
    import switchml

    return {
        name: value
        for name, value in switchml.stats(group).items()
        if isinstance(value, int) and name not in ("rank", "size")
    }


def surroundings():
    """Counters beside this process: ticks of all cores (niced ones are seldom a benchmark's own), and segments that TCP
    repeated in this network namespace."""
    user, nice, system, idle, wait, irq, softirq, steal = map(
        int, pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    busy = user + nice + system + irq + softirq + steal
    tcp = [
        line.split() for line in pathlib.Path("/proc/self/net/snmp").read_text().splitlines() if line.startswith("Tcp:")
    ]
    return {
        "ticks": busy + idle + wait,
        "busy": busy,
        "nice": nice,
        "softirq": softirq,
        "tcp_repeats": int(dict(zip(*tcp))["RetransSegs"]),
    }


def moved(before, after):
    return {name: after[name] - before[name] for name in after}


def add(totals, moves):
    for name, value in moves.items():
        totals[name] = totals.get(name, 0) + value
