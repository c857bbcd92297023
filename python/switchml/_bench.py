"""All-reduces beside Gloo in about a minute: a table, and a picture where matplotlib is installed.

    python -m switchml bench --ranks 4                                                    # processes of this host
    torchrun --nnodes 2 --nproc-per-node 1 --master-addr HOST --node-rank N --no-python python -m switchml bench

Both backends take turns on the same tensors. Each result is verified. A time is that of the slowest rank; bus bandwidth
is 2 (n-1)/n of the tensor's bytes over the time, as NCCL's tests have it.
"""

import os
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed as dist

from switchml import _arguments, _figures, _info

BACKENDS = ("switchml", "gloo")
SIZES = [1 << 10, 1 << 13, 1 << 16, 1 << 19, 1 << 22, 1 << 25]
TURNS = 5  # at least, of each size


def add_options(parser):
    parser.add_argument(
        "--ranks",
        type=_arguments.ranks,
        default=max(2, min(4, os.cpu_count() or 1)),
        help="processes of this host (2 to 128), where no launcher made them",
    )
    parser.add_argument(
        "--seconds", type=_arguments.seconds, default=60.0, help="about, for all sizes together; default: 60"
    )
    parser.add_argument(
        "--png",
        type=_arguments.picture,
        default="switchml-bench.png",
        help="where the picture goes; default: switchml-bench.png; '' for none",
    )


def launch(options):
    """The same command in so many processes."""
    wrong = _info.silent_switch()
    if wrong:
        sys.exit(f"error: {wrong}")
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc_per_node",
        str(options.ranks),
        "-m",
        "switchml",
        "bench",
        "--seconds",
        str(options.seconds),
        "--png",
        options.png,
    ]
    return subprocess.run(command, env={"OMP_NUM_THREADS": "1", **os.environ}).returncode


class Bench:
    def __init__(self):
        dist.init_process_group("gloo")
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        try:
            self.groups = {name: dist.new_group(backend=name) for name in BACKENDS}
        except Exception as error:  # the launcher's own report is long enough
            sys.exit(f"error: rank {self.rank}: {error}")

    def call(self, name, tensor):
        """Seconds on this rank."""
        tensor.fill_(self.rank + 1)
        dist.barrier()
        begin = time.perf_counter()
        dist.all_reduce(tensor, group=self.groups[name])
        seconds = time.perf_counter() - begin
        if not bool((tensor == self.size * (self.size + 1) / 2).all()):
            raise RuntimeError(f"{name}: a sum of {tensor.numel()} elements is wrong")
        return seconds

    def slowest(self, times):
        found = torch.tensor(times, dtype=torch.float64)
        dist.all_reduce(found, op=dist.ReduceOp.MAX)
        return found.tolist()

    def measure(self, size, seconds):
        """{backend: median seconds of the slowest rank}"""
        tensor = torch.empty(size // 4)
        for name in BACKENDS:
            self.call(name, tensor)
        once = sum(self.slowest([self.call(name, tensor) for name in BACKENDS]))
        turns = max(TURNS, min(1000, int(seconds / once)))
        times: dict = {name: [] for name in BACKENDS}
        for _ in range(turns):
            for name in BACKENDS:
                times[name].append(self.call(name, tensor))
        return {name: statistics.median(self.slowest(times[name])) for name in BACKENDS}


def bus_bandwidth(size, ranks, seconds):
    """Gbit/s."""
    return _figures.bus_bytes(size, ranks) * 8 / seconds / 1e9


def print_row(size, ranks, found):
    cells = [f"{found[name] * 1e3:9.3f} ms {bus_bandwidth(size, ranks, found[name]):8.3f}" for name in BACKENDS]
    print(f"{_figures.format_bytes(size):>8}  {'  '.join(cells)}  {found['gloo'] / found['switchml']:6.2f}", flush=True)


def draw(rows, ranks, path):
    try:
        from matplotlib import pyplot
    except ImportError:
        print("no picture: matplotlib is not installed")
        return
    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    for name in BACKENDS:
        axes.plot(
            [size for size, _ in rows],
            [bus_bandwidth(size, ranks, found[name]) for size, found in rows],
            marker="o",
            label=name,
        )
    _figures.label_sizes(axes, [size for size, _ in rows])
    axes.set(ylabel="bus bandwidth (Gbit/s)", title=f"all-reduce, {ranks} ranks")
    axes.grid(True, alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120, format="png")  # so that no suffix is added to the name
    print(f"written: {path}")


def run(options):
    wrong = _info.wrong_setting()
    if wrong:
        sys.exit(f"error: {wrong}")
    if "RANK" not in os.environ:
        return launch(options)
    bench, rows = Bench(), []
    if bench.rank == 0:
        import switchml

        session = switchml.stats(bench.groups["switchml"])["session"]
        print(f"{bench.size} ranks, transport {session['transport']}, torch {torch.__version__}; busbw in Gbit/s")
        print(f"{'tensor':>8}  {'switchml':>12} {'busbw':>8}  {'gloo':>12} {'busbw':>8}  faster", flush=True)
    for size in SIZES:
        found = bench.measure(size, options.seconds / len(SIZES))
        rows.append((size, found))
        if bench.rank == 0:
            print_row(size, bench.size, found)
    if bench.rank == 0 and options.png:
        draw(rows, bench.size, options.png)
    dist.destroy_process_group()
    return 0
