"""One rank of the benchmark of latencies, under mpirun or torchrun: worker.py STORE WHAT, as JSON (see __main__.py).
Rank 0 prints the result."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import member
import pattern
import torch
import torch.distributed as dist

MIN_CALLS, PROBES = 20, 5


class Bench:
    def __init__(self, what):
        self.rank, self.size, self.what = dist.get_rank(), dist.get_world_size(), what
        self.reduce = {name: getattr(self, f"open_{name}")() for name in what["backends"]}
        self.mine, self.sum = pattern.mine_and_sum(self.rank, self.size, torch.float32)

    def open_switchml(self):
        group = member.new_group("switchml")
        return lambda tensor: dist.all_reduce(tensor, group=group)

    def open_gloo(self):
        group = member.new_group("gloo")
        return lambda tensor: dist.all_reduce(tensor, group=group)

    def open_openmpi(self):
        from mpi4py import MPI

        return lambda tensor: MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, tensor.numpy())

    def block(self, name, count, calls):
        """Seconds of each of so many calls, one right after the other. The last result is verified."""
        mine, tensor, reduce, times = torch.empty(count), torch.empty(count), self.reduce[name], []
        pattern.fill(mine, self.mine)
        dist.barrier()
        for _ in range(calls):
            tensor.copy_(mine)
            begin = time.perf_counter()
            reduce(tensor)
            times.append(time.perf_counter() - begin)
        at = pattern.first_difference(tensor, self.sum)
        if at is not None:
            raise ValueError(
                f"{name}, {count} elements: element {at} is {tensor[at].item()!r}, should be {self.sum[at % pattern.PERIOD].item()!r}"
            )
        return times

    def measure(self, size):
        """{backend: sorted seconds of all calls of all ranks}"""
        rounds, count = self.what["rounds"], size // 4
        calls = {}
        for name in self.reduce:
            probes = self.block(name, count, PROBES)
            slowest = max(member.slowest([min(probes)]))
            calls[name] = int(min(self.what["calls"], max(MIN_CALLS, self.what["seconds"] / slowest)) / rounds) or 1
        times = {name: [] for name in self.reduce}
        for _ in range(rounds):
            for name in self.reduce:
                times[name] += self.block(name, count, calls[name])
        ranks = [None] * self.size
        dist.all_gather_object(ranks, times)
        return {name: sorted(seconds for rank in ranks for seconds in rank[name]) for name in times}


def main():
    what = member.launched()
    bench = Bench(what)
    rows = [{"bytes": size, "seconds": bench.measure(size)} for size in what["sizes"]]
    member.finish(rows)


if __name__ == "__main__":
    main()
