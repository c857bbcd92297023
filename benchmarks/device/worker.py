"""One rank of the benchmark of accelerators, under torchrun: worker.py STORE WHAT, as JSON (see __main__.py). Rank 0
prints the result."""

import importlib
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import member
import pattern
import torch
import torch.distributed as dist

WARM_UP = 3


def timed(action, calls):
    """Median seconds of an action, which may return what is waited for outside of them."""
    times = []
    for _ in range(calls + WARM_UP):
        torch.accelerator.synchronize()
        dist.barrier()
        begin = time.perf_counter()
        work = action()
        times.append(time.perf_counter() - begin)
        if work is not None:
            work.wait()
    return statistics.median(times[WARM_UP:])


class Bench:
    def __init__(self, what):
        self.calls = what["calls"]
        self.device = torch.accelerator.current_accelerator()
        torch.accelerator.set_device_index(dist.get_rank() % torch.accelerator.device_count())
        names = {"switchml": f"cpu:switchml,{self.device.type}:switchml"}
        self.groups = {name: member.new_group(names.get(name, name)) for name in what["backends"]}
        self.mine, self.sum = pattern.mine_and_sum(dist.get_rank(), dist.get_world_size(), torch.float32)

    def verify(self, name, tensor, group):
        host = torch.empty(tensor.numel())
        pattern.fill(host, self.mine)
        tensor.copy_(host)
        dist.all_reduce(tensor, group=group)
        at = pattern.first_difference(tensor.cpu(), self.sum)
        if at is not None:
            raise ValueError(f"{name}, {tensor.numel()} elements: element {at} is wrong")
        tensor.zero_()

    def measure(self, size):
        """{backend: {part: median seconds of the slowest rank}}"""
        host = torch.zeros(size // 4, pin_memory=True)
        tensor = torch.zeros(size // 4, device=self.device)

        def copied(to, source):
            to.copy_(source, non_blocking=True)
            torch.accelerator.synchronize()

        def reduced(group):
            dist.all_reduce(tensor, group=group)
            torch.accelerator.synchronize()

        found = {}
        for name, group in self.groups.items():
            self.verify(name, tensor, group)
            found[name] = {
                "in": timed(lambda: copied(host, tensor), self.calls),
                "host": timed(lambda group=group: dist.all_reduce(host, group=group), self.calls),
                "out": timed(lambda: copied(tensor, host), self.calls),
                "device": timed(lambda group=group: reduced(group), self.calls),
                "caller": timed(lambda group=group: dist.all_reduce(tensor, group=group, async_op=True), self.calls),
            }
        return {name: dict(zip(parts, member.slowest(list(parts.values())))) for name, parts in found.items()}


def main():
    what = member.launched()
    if what["module"]:
        importlib.import_module(what["module"])
    bench = Bench(what)
    member.finish([{"bytes": size, "seconds": bench.measure(size)} for size in what["sizes"]])


if __name__ == "__main__":
    main()
