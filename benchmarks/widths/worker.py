"""One rank of the benchmark of widths: worker.py RANK SIZE STORE. It does what __main__.py tells it: the methods of
Bench."""

import functools
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "python"))
import member
import numpy
import oracle
import told
import torch
import torch.distributed as dist

SEED, CALLS = 20261130, 3


@functools.cache  # types have the same
def trained(ranks, elements):
    """Gradients that rank 0 has made: a training takes seconds."""
    found = torch.empty(ranks, elements, dtype=torch.float64)
    if dist.get_rank() == 0:
        sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "accuracy"))
        import training

        found.copy_(torch.from_numpy(training.gradients(ranks, elements, SEED)))
    dist.broadcast(found, 0)
    return found.numpy()


def drawn(data, ranks, elements):
    """[ranks, elements], the same on each rank. Numbers stay within float16's range."""
    if data == "gradients":
        return trained(ranks, elements)
    random = numpy.random.default_rng(SEED)
    shape = ranks, elements
    if data == "normal":
        return random.standard_normal(shape)
    if data == "laplace":
        return random.laplace(size=shape)
    if data == "student":
        return random.standard_t(2, shape)
    return random.lognormal(0, 3, shape) * random.choice([-1, 1], shape) / 64


class Bench:
    def open(self, bits):
        import switchml

        os.environ["SWITCHML_SIGNIFICANT_BITS"] = bits
        self.group, self.bits = member.new_group("switchml"), None if bits == "auto" else int(bits)
        session = switchml.stats(self.group)["session"]
        if session["precision"] != "integer":
            raise ValueError(f"precision {session['precision']}: no switch adds integers")

    def measure(self, data, kind, elements):
        rank, ranks = dist.get_rank(), dist.get_world_size()
        inputs = [torch.from_numpy(each).to(getattr(torch, kind)) for each in drawn(data, ranks, elements)]
        sent = []
        for _ in range(CALLS):  # of which few repeat a frame
            before = member.switch_counters(self.group)["bytes_sent"]
            mine = inputs[rank].clone()
            dist.all_reduce(mine, group=self.group)
            sent.append(member.switch_counters(self.group)["bytes_sent"] - before)
        exact = torch.stack([x.double() for x in inputs]).sum(0)
        error = (mine.double() - exact).abs() / oracle.sum_tolerance(inputs, exact, self.bits)
        vanished, lost = self.lonely(inputs)
        return {"bytes": min(sent) / len(mine), "error": error.max().item(), "vanished": vanished, "lost": lost}

    def lonely(self, inputs):
        """(elements that vanish, the largest part that one loses), where each element is one rank's."""
        rank, ranks = dist.get_rank(), dist.get_world_size()
        place = torch.arange(len(inputs[0])) % ranks
        of_all = torch.stack(inputs).gather(0, place[None])[0]
        mine = of_all.where(place == rank, torch.zeros_like(of_all))
        dist.all_reduce(mine, group=self.group)  # Each rank has all of the result.
        there = of_all != 0
        loss = ((of_all.double() - mine.double()) / of_all.double())[there].abs().max().item()
        return int((there & (mine == 0)).sum()), loss * 2 ** (self.bits or 0)


if __name__ == "__main__":
    member.join()
    bench = Bench()
    told.serve({"open": bench.open, "measure": bench.measure})
    dist.destroy_process_group()
