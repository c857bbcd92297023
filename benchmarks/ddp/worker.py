"""One rank of the DDP benchmark: worker.py RANK SIZE STORE. It does what __main__.py tells it: the methods of Bench in
`serve`."""

import contextlib
import inspect
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import member
import model
import pattern
import shapes
import told
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

BUCKET_MIB = 25  # DDP's own
ALONE = "compute"  # a step without communication


def tensors_of(rank, model_shapes):
    """The rank's values, a table of `pattern` repeated, cut into the shapes."""
    flat = torch.empty(shapes.elements(model_shapes))
    pattern.fill(flat, pattern.table(rank))
    return [
        part.view(shape)
        for part, shape in zip(flat.split([torch.Size(shape).numel() for shape in model_shapes]), model_shapes)
    ]


def distribute(module, group, scale):
    """DDP as a user has it, but with buckets scaled like the tensors. Parameters are equal where they count, so that
    they are not sent at the start where this PyTorch can leave that out."""
    extra = {"bucket_cap_mb": BUCKET_MIB * scale} if scale != 1 else {}
    if "init_sync" in inspect.signature(DistributedDataParallel.__init__).parameters:
        extra["init_sync"] = False
    return DistributedDataParallel(module, process_group=group, **extra)


class Bench:
    def __init__(self):
        self.clock = model.Clock()

    def open(self, name, scale, backends, is_sharded):
        """The number of tensors and of elements, and the payload that switchml was granted."""
        size, wanted = dist.get_world_size(), shapes.scaled(name, scale)
        mine = tensors_of(dist.get_rank(), wanted)
        self.mean = torch.stack([pattern.table(rank) for rank in range(size)]).mean(dim=0)
        groups = {backend: member.new_group(backend) for backend in backends}
        if is_sharded:
            import sharded

            block = max(1, int(scale * BUCKET_MIB * (1 << 20) / 4))
            self.modules = {
                backend: sharded.Sharded(mine, self.clock, block, group) for backend, group in groups.items()
            }
            self.alone = sharded.Sharded(mine, self.clock, block)
        else:
            self.modules = {
                backend: distribute(model.Model(mine, self.clock), group, scale) for backend, group in groups.items()
            }
            self.alone = next(iter(self.modules.values()))
        self.signal = torch.zeros(1)
        for backend in backends:  # after the first step DDP orders its buckets anew
            self.step(backend)
            self.step(backend)
        payload = 0
        if "switchml" in groups:
            import switchml

            payload = switchml.stats(groups["switchml"])["session"]["payload_bytes"]
        return {
            "tensors": len(wanted),
            "elements": shapes.elements(wanted),
            "payload": payload,
            "torch": torch.__version__,
        }

    def step(self, kind):
        """Seconds of a step over a backend, or of one that leaves out communication."""
        module = self.alone if kind == ALONE else self.modules[kind]
        module.zero_grad(set_to_none=True)
        dist.barrier()
        begin = time.perf_counter()
        self.clock.begin()
        with module.no_sync() if kind == ALONE else contextlib.nullcontext():
            module(self.signal).backward()
        return time.perf_counter() - begin

    def verify(self, backend):
        """The gradients are the means over the ranks; sums are exact, the division may round."""
        self.step(backend)
        module = self.modules[backend]
        gradients = module.gradients() if hasattr(module, "blocks") else [weight.grad for weight in module.parameters()]
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        for begin in range(0, flat.numel(), pattern.PERIOD):
            part = flat[begin : begin + pattern.PERIOD]
            wrong = (part - self.mean[: part.numel()]).abs() > pattern.LIMIT * 1e-6
            if wrong.any():
                at = int(wrong.nonzero()[0])
                raise ValueError(
                    f"{backend}: element {begin + at} of the gradients is {part[at].item()!r}, should be {self.mean[at].item()!r}"
                )

    def steps(self, compute_seconds, kinds, count, checked):
        """Times of steps of every kind, interleaved."""
        self.clock.seconds = compute_seconds
        backends = [kind for kind in kinds if kind != ALONE] if checked else []
        for backend in backends:
            self.verify(backend)
        times = {kind: [] for kind in kinds}
        for _ in range(count):
            for kind in kinds:
                times[kind].append(self.step(kind))
        for backend in backends:
            self.verify(backend)
        return times


if __name__ == "__main__":
    member.join()
    bench = Bench()
    told.serve({"open": bench.open, "steps": bench.steps})
    dist.destroy_process_group()
