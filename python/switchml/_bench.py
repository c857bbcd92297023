"""Collectives beside Gloo on the same ranks, with the options and columns of NCCL's tests.

    python -m switchml bench --ranks 4                            # all-reduces, processes of this host
    python -m switchml bench all -b 4K -e 4M -f 4 -d half         # every collective
    torchrun --nnodes 2 --nproc-per-node 1 --master-addr HOST --node-rank N --no-python python -m switchml bench

Both backends take turns. Ranks meet before each call; the time is the median of the slowest rank's. algbw is the size
over the time, in 10^9 bytes a second. busbw is that times what NCCL's tests have for the collective, 2 (n-1)/n for an
all-reduce. Every result is compared with the exact one: #wrong counts elements of all ranks and calls, and is an error.
"""

import json
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed as dist

from switchml import _arguments, _bench_calls, _figures, _info

BACKENDS = ("switchml", "gloo")
QUIET_SECONDS = 5  # after which a line of progress follows


def add_options(parser):
    add = parser.add_argument
    names = (*_bench_calls.COLLECTIVES, "all")
    add("collective", nargs="*", type=_arguments.one_of(names), help=f"{', '.join(names)}; default: all_reduce")
    add("-b", "--minbytes", type=_arguments.size, default="1K", metavar="SIZE", help="smallest size; default: 1K")
    add("-e", "--maxbytes", type=_arguments.size, default="32M", metavar="SIZE", help="largest size; default: 32M")
    add("-f", "--stepfactor", type=_arguments.whole(2), default=8, metavar="N", help="from size to size; default: 8")
    add("-n", "--iters", type=_arguments.whole(1), default=20, metavar="N", help="timed calls of a size; default: 20")
    add("-w", "--warmup_iters", type=_arguments.whole(1), default=5, metavar="N", help="calls before; default: 5")
    operations, types = (*_bench_calls.OPERATIONS, "all"), (*_bench_calls.TYPES, "all")
    add("-o", "--op", type=_arguments.one_of(operations), default="sum", help=f"{', '.join(operations)}; default: sum")
    add("-d", "--datatype", type=_arguments.one_of(types), default="float", help=f"{', '.join(types)}; default: float")
    add("-r", "--root", type=_arguments.whole(0), default=0, metavar="RANK", help="of those that have one; default: 0")
    help_ranks = "processes of this host (2 to 128), where no launcher made them"
    add("--ranks", type=_arguments.ranks, default=max(2, min(4, os.cpu_count() or 1)), help=help_ranks)
    add("--json", action="store_true", help="for programs, in place of the table")
    add("--png", type=_arguments.picture, default="", metavar="FILE", help="also a picture of bus bandwidths")
    parser.set_defaults(parser=parser)


def check(options, ranks):
    """Of the options together."""
    if options.minbytes > options.maxbytes:
        options.parser.error(f"-b {options.minbytes} is above -e {options.maxbytes}")
    if options.root >= ranks:
        options.parser.error(f"argument -r/--root: {options.root} is not allowed: ranks are 0 to {ranks - 1}")


def launch(options):
    """The same command in so many processes."""
    wrong = _info.silent_switch()
    if wrong:
        sys.exit(f"error: {wrong}")
    say(f"starting {options.ranks} ranks")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(options.ranks)]
    command += ["-m", "switchml", "bench", *options.collective]
    for name in ("minbytes", "maxbytes", "stepfactor", "iters", "warmup_iters", "op", "datatype", "root", "png"):
        command += [f"--{name}", str(getattr(options, name))]
    command += ["--json"] * options.json
    return subprocess.run(command, env={"OMP_NUM_THREADS": "1", **os.environ}).returncode


def say(text):
    """On the way; the table alone goes to standard output."""
    print(f"# {text}", file=sys.stderr, flush=True)


class Bench:
    def __init__(self, options):
        dist.init_process_group("gloo")
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        check(options, self.size)
        self.options, self.notes, self._said = options, [], time.monotonic()
        try:
            self.groups = {name: dist.new_group(backend=name) for name in BACKENDS}
        except Exception as error:  # the launcher's own report is long enough
            sys.exit(f"error: rank {self.rank}: {error}")

    def agreed(self, values, op=dist.ReduceOp.MAX):
        found = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(found, op=op)
        return found.tolist()

    def progress(self, call, name, done):
        if self.rank == 0 and time.monotonic() - self._said > QUIET_SECONDS:
            self._said = time.monotonic()
            say(f"{call.name}, {_figures.format_bytes(call.bytes)}, {name}: {done} of {self.options.iters} calls")

    def time(self, call, name):
        """Seconds on this rank, and wrong elements."""
        call.prepare()
        dist.barrier()
        begin = time.perf_counter()
        call.make(self.groups[name])
        return time.perf_counter() - begin, call.wrong()

    def warm_up(self, call, name):
        """Wrong elements; None if this backend, which is not ours, does not have such a call."""
        wrong, refusal = 0, None
        try:
            wrong = self.time(call, name)[1]
        except (RuntimeError, ValueError, NotImplementedError) as error:
            if name == "switchml":
                raise
            refusal = f"n/a: {name} {call.name}: {str(error).splitlines()[0]}"
        if self.agreed([refusal is not None])[0]:
            if refusal and refusal not in self.notes:
                self.notes.append(refusal)
            return None
        return wrong + sum(self.time(call, name)[1] for _ in range(self.options.warmup_iters - 1))

    def measure(self, call):
        """{backend: what came of it, or None}"""
        wrong = {name: self.warm_up(call, name) for name in BACKENDS}
        times: dict = {name: [] for name in BACKENDS if wrong[name] is not None}
        for done in range(self.options.iters):
            for name in times:
                self.progress(call, name, done)
                seconds, bad = self.time(call, name)
                times[name].append(seconds)
                wrong[name] += bad
        return {name: name in times and self.figures(call, times[name], wrong[name]) or None for name in BACKENDS}

    def figures(self, call, times, wrong):
        seconds = statistics.median(self.agreed(times))
        algbw = call.bytes / seconds / 1e9
        (wrong,) = self.agreed([wrong], dist.ReduceOp.SUM)
        return {"time_us": seconds * 1e6, "algbw": algbw, "busbw": algbw * call.bus_factor, "wrong": int(wrong)}

    def rows(self):
        """One at a time, as dictionaries."""
        options = self.options
        for name in collectives_of(options):
            reduces, has_root = _bench_calls.COLLECTIVES[name][2:]
            for datatype in _bench_calls.TYPES if options.datatype == "all" else [options.datatype]:
                for op in _bench_calls.OPERATIONS if options.op == "all" and reduces else [options.op]:
                    size = options.minbytes
                    while size <= options.maxbytes:
                        op = op if op != "all" else "sum"
                        call = _bench_calls.Call(name, size, _bench_calls.TYPES[datatype], op, options.root)
                        own = {"collective": name, "size": call.bytes, "count": call.count, "type": datatype}
                        of_call = {"redop": op if reduces else None, "root": options.root if has_root else None}
                        yield {**own, **of_call, **self.measure(call)}
                        size *= options.stepfactor


def collectives_of(options):
    return list(_bench_calls.COLLECTIVES) if "all" in options.collective else options.collective or ["all_reduce"]


def header(bench, session):
    print(f"# {bench.size} ranks, transport {session['transport']}, precision {session['precision']}, "
          f"torch {torch.__version__}; {bench.options.iters} calls of each size, {bench.options.warmup_iters} before"
          )  # fmt: skip
    columns = f"{'time':>9} {'algbw':>7} {'busbw':>7} {'#wrong':>6}"
    units = f"{'(us)':>9} {'(GB/s)':>7} {'(GB/s)':>7} {'':>6}"
    left = f"{'size':>11} {'count':>11} {'type':>8} {'redop':>5} {'root':>4}"
    print(f"#{'':>14} {'':>43}  {'  '.join(f'{name:^32}' for name in BACKENDS)}")
    print(f"#{'collective':>14} {left}  {columns}  {columns} faster")
    print(f"#{'':>14} {'(B)':>11} {'(elements)':>11} {'':>8} {'':>5} {'':>4}  {units}  {units}", flush=True)


def print_row(row):
    cells = [f"{'n/a':>9} {'':>7} {'':>7} {'':>6}" if not row[name] else
             "{time_us:9.2f} {algbw:7.2f} {busbw:7.2f} {wrong:6}".format(**row[name]) for name in BACKENDS]  # fmt: skip
    faster = f"{row['gloo']['time_us'] / row['switchml']['time_us']:6.2f}" if row["gloo"] else ""
    op, root = row["redop"] or "none", -1 if row["root"] is None else row["root"]
    print(f" {row['collective']:>14} {row['size']:11} {row['count']:11} {row['type']:>8} {op:>5} {root:4}  "
          f"{'  '.join(cells)} {faster}", flush=True)  # fmt: skip


def draw(rows, ranks, path):
    try:
        from matplotlib import pyplot
    except ImportError:
        say("no picture: matplotlib is not installed")
        return
    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    lines: dict = {}
    for row in rows:
        for name in BACKENDS:
            if row[name]:
                key = name, row["collective"], row["type"], row["redop"]
                lines.setdefault(key, []).append((row["size"], row[name]["busbw"]))
    for key, points in lines.items():
        axes.plot(*zip(*points), marker="o", label=" ".join(filter(None, key)))
    _figures.label_sizes(axes, sorted({row["size"] for row in rows}))
    axes.set(ylabel="bus bandwidth (GB/s)", title=f"{ranks} ranks")
    axes.grid(True, alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120, format="png")  # so that no suffix is added to the name
    say(f"written: {path}")


def report(bench):
    """Wrong elements."""
    import switchml

    session, is_first, rows = switchml.stats(bench.groups["switchml"])["session"], bench.rank == 0, []
    if is_first and not bench.options.json:
        header(bench, session)
    for row in bench.rows():
        rows.append(row)
        if is_first and not bench.options.json:
            print_row(row)
    wrong = sum(row[name]["wrong"] for row in rows for name in BACKENDS if row[name])
    if is_first:
        if bench.options.json:
            own = {"ranks": bench.size, "torch": torch.__version__, "session": session, "notes": bench.notes}
            print(json.dumps({**own, "wrong": wrong, "rows": rows}, indent=2))
        else:
            print("\n".join([*(f"# {note}" for note in bench.notes), f"# wrong elements: {wrong}"]), flush=True)
        if bench.options.png:
            draw(rows, bench.size, bench.options.png)
    return wrong


def run(options):
    wrong = _info.wrong_setting()
    if wrong:
        sys.exit(f"error: {wrong}")
    if "RANK" not in os.environ:
        check(options, options.ranks)
        return launch(options)
    _arguments.launched()
    bench = Bench(options)
    wrong = report(bench)
    dist.destroy_process_group()
    return 1 if wrong else 0
