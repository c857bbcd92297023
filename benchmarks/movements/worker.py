"""One rank of the benchmark of movements: worker.py RANK SIZE STORE. It does what __main__.py tells it: the methods of
Bench."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import member
import pattern
import told
import torch
import torch.distributed as dist

MIN_CALLS, MAX_CALLS, PROBES = 5, 2000, 3


class Movement:
    """One collective of `size` bytes in all: what the root has, or what a rank gathers. `fill` makes its input, `check`
    its result."""

    def __init__(self, collective, size):
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.collective = collective
        self.tables = [pattern.table(rank) for rank in range(self.ranks)]
        count = size // 4 // self.ranks * self.ranks
        self.part, self.whole = torch.empty(count // self.ranks), torch.empty(count)
        self.other, self.sums = torch.empty(count), torch.empty(count // self.ranks)
        self.pieces = list(self.other.chunk(self.ranks))

    def fill(self):
        self.other.zero_()
        for tensor in (self.part, self.whole):
            pattern.fill(tensor, self.tables[self.rank])

    def call(self, group):
        root = self.rank == 0
        if self.collective == "broadcast":
            dist.broadcast(self.whole, 0, group=group)
        elif self.collective == "all_gather":
            dist.all_gather(self.pieces, self.part, group=group)
        elif self.collective == "all_gather_into_tensor":
            dist.all_gather_into_tensor(self.other, self.part, group=group)
        elif self.collective == "gather":
            dist.gather(self.part, self.pieces if root else None, 0, group=group)
        elif self.collective == "scatter":
            dist.scatter(self.part, list(self.whole.chunk(self.ranks)) if root else None, 0, group=group)
        elif self.collective == "all_to_all_single":
            dist.all_to_all_single(self.other, self.whole, group=group)
        elif self.collective == "reduce_scatter_tensor":
            dist.reduce_scatter_tensor(self.part, self.whole, group=group)
        else:
            self.gather_and_scatter(group, together=self.collective == "together")

    def gather_and_scatter(self, group, together):
        work = dist.all_gather_into_tensor(self.other, self.part, group=group, async_op=True)
        if not together:
            work.wait()
        dist.reduce_scatter_tensor(self.sums, self.whole, group=group)
        work.wait()

    def results(self):
        """[(tensor, what it must be)]"""
        count = self.part.numel()

        def made(table, elements):
            expected = torch.empty(elements)
            pattern.fill(expected, table)
            return expected

        if self.collective == "broadcast":
            return [(self.whole, made(self.tables[0], self.whole.numel()))]
        gathered = [(piece, made(table, count)) for piece, table in zip(self.pieces, self.tables)]
        if (
            self.collective in ("all_gather", "all_gather_into_tensor")
            or self.collective == "gather"
            and self.rank == 0
        ):
            return gathered
        if self.collective == "gather":
            return []
        mine = slice(self.rank * count, (self.rank + 1) * count)
        if self.collective == "scatter":
            return [(self.part, made(self.tables[0], self.whole.numel())[mine])]
        if self.collective == "all_to_all_single":
            return [(piece, made(table, self.whole.numel())[mine]) for piece, table in zip(self.pieces, self.tables)]
        sums = made(torch.stack(self.tables).sum(0), self.whole.numel())[mine]
        return [(self.part, sums)] if self.collective == "reduce_scatter_tensor" else [*gathered, (self.sums, sums)]

    def check(self, backend):
        for number, (tensor, expected) in enumerate(self.results()):
            if not torch.equal(tensor, expected):
                at = int((tensor != expected).nonzero()[0])
                raise ValueError(
                    f"{backend}, {self.collective}, tensor {number}: element {at} is {tensor[at]}, should be {expected[at]}"
                )


class Bench:
    def open(self, network):
        self.groups = {name: member.new_group(name) for name in ("switchml", "gloo")}
        import switchml

        for group in self.groups.values():
            dist.barrier(group=group)
        self.pace = member.Pace(network)
        return {
            "torch": torch.__version__,
            "transport": switchml.stats(self.groups["switchml"])["session"]["transport"],
        }

    def measure(self, collective, size, seconds):
        """{backend: seconds of each call}, interleaved; the first and the last call of each are verified."""
        movement = Movement(collective, size)
        times = {name: [] for name in self.groups}
        for turn in range(PROBES):
            self.turn(movement, times, verified=turn == 0)
        slowest = max(member.slowest([times[name][-1] for name in self.groups]))
        calls = int(min(MAX_CALLS, max(MIN_CALLS, seconds / slowest)))
        times = {name: [] for name in self.groups}
        for turn in range(calls):
            self.turn(movement, times, verified=turn == calls - 1)
        return times

    def turn(self, movement, times, verified):
        for name, group in self.groups.items():
            movement.fill()
            self.pace()
            begin = time.perf_counter()
            movement.call(group)
            times[name].append(time.perf_counter() - begin)
            if verified:
                movement.check(name)


if __name__ == "__main__":
    member.join()
    bench = Bench()
    told.serve({"open": bench.open, "measure": bench.measure})
    dist.destroy_process_group()
