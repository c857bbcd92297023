"""One rank of the benchmark of serving, under mpirun or torchrun: worker.py STORE WHAT, as JSON (see __main__.py). Rank
0 prints the result."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import computation
import engines
import member
import pattern
import torch
import torch.distributed as dist

MIN_CALLS, PROBES, WARM_UP = 20, 5, 3  # the first calls of a block are not counted


class Bench:
    def __init__(self, what):
        self.rank, self.size, self.what = dist.get_rank(), dist.get_world_size(), what
        self.engines = {name: getattr(engines, name)() for name in what["backends"]}
        self.compute = computation.Computation()

    def values(self, name, kind):
        """(what this rank's tensor repeats, what the result does)"""
        if kind == torch.int16:
            tables = [pattern.table(rank, 1 << 12, kind) for rank in range(self.size)]
            return tables[self.rank], sum(tables)
        mine, total = pattern.mine_and_sum(self.rank, self.size, kind)
        return mine, mine if name == "alone" else total

    def block(self, name, count, kind, gap, calls):
        """(when each of so many calls began, when it ended). The last result is verified."""
        engine, steps = self.engines[name], round(gap * 1e-6 / self.compute.seconds)
        tensor = engine.allocate(count, kind)
        call, (mine, total), times = engine.call(tensor), self.values(name, tensor.dtype), []
        source = torch.empty(count, dtype=tensor.dtype)
        pattern.fill(source, mine)
        dist.barrier()
        for _ in range(WARM_UP + calls):
            self.compute(steps)
            tensor.copy_(source)
            begin = time.perf_counter()
            call()
            times.append((begin, time.perf_counter()))
        at = pattern.first_difference(tensor, total)
        if at is not None:
            expected = total[at % pattern.PERIOD].item()
            raise ValueError(f"{name}, {count} elements: element {at} is {tensor[at].item()!r}, should be {expected!r}")
        return times[WARM_UP:]

    def measure(self, size, kind, gap):
        """({engine: sorted seconds in each call of each rank}, {engine: of each call, from when the last rank came to
        when the last one had its result})"""
        rounds, count, calls = self.what["rounds"], size // kind.itemsize, {}
        for name in self.engines:
            begin = time.perf_counter()
            self.block(name, count, kind, gap, PROBES)
            (slowest,) = member.slowest([(time.perf_counter() - begin) / (PROBES + WARM_UP)])
            calls[name] = int(min(self.what["calls"], max(MIN_CALLS, self.what["seconds"] / slowest)) / rounds) or 1
        times = {name: [] for name in self.engines}
        for _ in range(rounds):
            for name in self.engines:
                times[name] += self.block(name, count, kind, gap, calls[name])
        ranks = [None] * self.size
        dist.all_gather_object(ranks, times)
        seconds, after_last = {}, {}
        for name in times:
            together = list(zip(*(rank[name] for rank in ranks)))
            seconds[name] = sorted(end - begin for call in together for begin, end in call)
            after_last[name] = sorted(
                max(end for _, end in call) - max(begin for begin, _ in call) for call in together
            )
        return seconds, after_last


def main():
    what = member.launched()
    bench, rows = Bench(what), []
    for kind in what["types"]:
        for length in what["sizes"]:
            for gap in what["gaps"]:
                seconds, after_last = bench.measure(length, getattr(torch, kind), gap)
                rows.append({"type": kind, "bytes": length, "gap": gap, "seconds": seconds, "after_last": after_last})
    member.finish(rows)


if __name__ == "__main__":
    main()
