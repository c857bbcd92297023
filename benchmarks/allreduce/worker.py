"""One rank of the all-reduce benchmark; started by __main__.py with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set."""
import argparse
import ctypes
import datetime
import json
import pathlib
import time

import pattern
import torch
import torch.distributed as dist

MIN_CALLS, MAX_CALLS, WARM_UP_CALLS = 5, 500, 2


def resident_bytes():
    """Physical memory of this process, in bytes, without what the allocator keeps of freed tensors."""
    ctypes.CDLL(None).malloc_trim(0)
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmRSS")


class Bench:
    """The groups, one per backend, over the same ranks; the default group is Gloo and paces the benchmark."""

    def __init__(self, backends):
        timeout = datetime.timedelta(minutes=5)
        dist.init_process_group(backend="gloo", timeout=timeout)
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.backends = backends
        if "switchml" in backends:
            import switchml  # noqa: F401
        self.groups = {name: dist.new_group(backend=name, timeout=timeout) for name in backends}
        tables = [pattern.table(rank) for rank in range(self.ranks)]
        self.mine = tables[self.rank]
        self.sum = torch.stack(tables).sum(dim=0)

    def slowest_rank(self, seconds):
        """Element-wise maximum over the ranks of a list of times."""
        times = torch.tensor(seconds, dtype=torch.float64)
        dist.all_reduce(times, op=dist.ReduceOp.MAX)
        return times.tolist()

    def call(self, backend, tensor):
        """Seconds of one all-reduce. The input is made, and the ranks wait for each other, outside of the time."""
        pattern.fill(tensor, self.mine)
        dist.barrier()
        begin = time.perf_counter()
        dist.all_reduce(tensor, group=self.groups[backend])
        return time.perf_counter() - begin

    def verify(self, backend, tensor):
        self.call(backend, tensor)
        at = pattern.first_difference(tensor, self.sum)
        if at is not None:
            raise SystemExit(f"rank {self.rank}: {backend}, {tensor.numel()} elements: element {at} is "
                             f"{tensor[at].item()!r}, should be {self.sum[at % pattern.PERIOD].item()!r}")

    def number_of_calls(self, tensor, arguments):
        """By the slowest backend's time, the same on every rank."""
        if arguments.iters:
            return arguments.iters
        probes = self.slowest_rank([min(self.call(name, tensor) for _ in range(WARM_UP_CALLS)) for name in self.backends])
        return int(min(MAX_CALLS, max(MIN_CALLS, arguments.seconds / max(probes))))

    def measure(self, size, arguments):
        """One row of the table: for each backend the sorted times of one size."""
        tensor = torch.empty(size // 4)
        for name in self.backends:
            self.verify(name, tensor)
        calls = self.number_of_calls(tensor, arguments)
        times = {name: [] for name in self.backends}
        for _ in range(calls):
            for name in self.backends:
                times[name].append(self.call(name, tensor))
        for name in self.backends:
            self.verify(name, tensor)
        row = {"bytes": size, "calls": calls}
        row["seconds"] = {name: sorted(self.slowest_rank(times[name])) for name in self.backends}
        return row

    def memory(self, resident_before):
        """Bytes of the heaviest rank: what switchml says it holds (engine, and the switch where it is embedded), and growth of the process since the groups were made."""
        held = 0
        if "switchml" in self.groups:
            import switchml

            stats = switchml.stats(self.groups["switchml"])
            held = stats["memory_bytes"] + stats.get("switch", {}).get("memory_bytes", 0)
        return dict(zip(("switchml_bytes", "process_growth_bytes"),
                        self.slowest_rank([held, max(0, resident_bytes() - resident_before)])))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", required=True)
    parser.add_argument("--backends", required=True)
    parser.add_argument("--iters", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--result", required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    bench = Bench(arguments.backends.split(","))
    resident = resident_bytes()
    rows = []
    for size in map(int, arguments.sizes.split(",")):
        row = bench.measure(size, arguments)
        row["memory"] = bench.memory(resident)
        rows.append(row)
        if bench.rank == 0:
            print(f"  {bench.ranks} ranks, {size} B: verified, {row['calls']} calls", flush=True)
    if bench.rank == 0:
        pathlib.Path(arguments.result).write_text(json.dumps({"ranks": bench.ranks, "torch": torch.__version__, "rows": rows}))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
