"""The collectives of `python -m switchml bench`: sizes as NCCL's tests count them, tensors, and what exactly must come
out. Inputs are small whole numbers, so that every type holds the result of every operation."""

import torch
import torch.distributed as dist

PERIOD = 1009  # elements after which inputs begin again

#: By the names of NCCL's tests.
TYPES = {
    "float": torch.float32,
    "double": torch.float64,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "int8": torch.int8,
    "uint8": torch.uint8,
    "int32": torch.int32,
    "int64": torch.int64,
}
OPERATIONS = {
    "sum": lambda values: values.sum(0),
    "avg": lambda values: values.sum(0) // len(values),
    "prod": lambda values: values.prod(0),
    "max": lambda values: values.amax(0),
    "min": lambda values: values.amin(0),
}
#: Name: (is the input, is the output a part for each rank; does it add; has it a root).
COLLECTIVES = {
    "all_reduce": (False, False, True, False),
    "reduce": (False, False, True, True),
    "broadcast": (False, False, False, True),
    "all_gather": (False, True, False, False),
    "reduce_scatter": (True, False, True, False),
    "all_to_all": (True, True, False, False),
    "gather": (False, True, False, True),
    "scatter": (True, False, False, True),
    "sendrecv": (False, False, False, False),
}


def _reduce_op(name):
    return getattr(dist.ReduceOp, "PRODUCT" if name == "prod" else name.upper())


def _patterns(op, ranks):
    """What each rank puts in, for one period. No type overflows, and an average is a whole number."""
    index = torch.arange(PERIOD)
    if op == "prod":
        return torch.stack([1 + ((index + rank) % ranks < 1 + index % 3).long() for rank in range(ranks)])
    base = (0 if op == "avg" and ranks > 127 else 1) + index * 7 % max(1, 126 // ranks - 1)
    rows = [base + ((index + rank) % 2 * 2 - 1) for rank in range(ranks - ranks % 2)]
    return torch.stack(rows + [base] * (ranks % 2))


class Call:
    """A collective of about `size` bytes, as NCCL's tests count them, on this rank."""

    def __init__(self, name, size, dtype, op, root):
        rank, ranks = dist.get_rank(), dist.get_world_size()
        has_parts_in, has_parts_out, self.reduces, self.has_root = COLLECTIVES[name]
        self.name, self.rank, self.ranks, self.op, self.root = name, rank, ranks, op, root
        whole, width = (ranks if has_parts_in or has_parts_out else 1), torch.empty(0, dtype=dtype).element_size()
        self.count = max(1, size // width // whole)  # elements of a part
        self.bytes = self.count * whole * width
        self._patterns, self._dtype = _patterns(op if self.reduces else "sum", ranks), dtype
        self._given = self._spread(self._patterns[rank], 0, self.count * (ranks if has_parts_in else 1))
        self.input = torch.empty_like(self._given)
        in_place = not has_parts_in and not has_parts_out and name != "sendrecv"
        self.output = self.input if in_place else torch.empty(self.count * (ranks if has_parts_out else 1), dtype=dtype)
        self._expected = self._result()

    def _spread(self, pattern, begin, count):
        return pattern.to(self._dtype).roll(-(begin % PERIOD)).repeat(-(-count // PERIOD))[:count]

    def _result(self):
        """None: nothing comes out on this rank."""
        n, rank = self.count, self.rank
        if self.reduces:
            reduced = OPERATIONS[self.op](self._patterns)
            if self.name == "reduce" and rank != self.root:
                return None
            return self._spread(reduced, n * rank if self.name == "reduce_scatter" else 0, n)
        if self.name == "broadcast":
            return self._spread(self._patterns[self.root], 0, n)
        if self.name == "scatter":
            return self._spread(self._patterns[self.root], n * rank, n)
        if self.name == "sendrecv":
            return self._spread(self._patterns[rank - 1], 0, n)
        if self.name == "gather" and rank != self.root:
            return None
        begin = n * rank if self.name == "all_to_all" else 0
        return torch.cat([self._spread(pattern, begin, n) for pattern in self._patterns])

    def prepare(self):
        if self.output is not self.input:
            self.output.fill_(77)
        self.input.copy_(self._given)

    def wrong(self):
        """How many elements have come out that should not."""
        return 0 if self._expected is None else int((self.output != self._expected).sum())

    def make(self, group):
        getattr(self, f"_{self.name}")(group)

    @property
    def bus_factor(self):
        """Bus bandwidth over algorithm bandwidth, as NCCL's tests have it."""
        if self.name in ("reduce", "broadcast", "sendrecv"):
            return 1.0
        return (2 if self.name == "all_reduce" else 1) * (self.ranks - 1) / self.ranks

    def _parts(self, tensor):
        return list(tensor.chunk(self.ranks)) if self.rank == self.root else None

    def _all_reduce(self, group):
        dist.all_reduce(self.input, _reduce_op(self.op), group)

    def _reduce(self, group):
        dist.reduce(self.input, self.root, _reduce_op(self.op), group)

    def _broadcast(self, group):
        dist.broadcast(self.input, self.root, group)

    def _all_gather(self, group):
        # PyTorch 2.13 warns about the old name.
        (getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor)(self.output, self.input, group)

    def _reduce_scatter(self, group):
        function = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
        function(self.output, self.input, _reduce_op(self.op), group)

    def _all_to_all(self, group):
        dist.all_to_all_single(self.output, self.input, group=group)

    def _gather(self, group):
        dist.gather(self.input, self._parts(self.output), self.root, group)

    def _scatter(self, group):
        dist.scatter(self.output, self._parts(self.input), self.root, group)

    def _sendrecv(self, group):
        after, before = (self.rank + 1) % self.ranks, (self.rank - 1) % self.ranks
        ends = [dist.P2POp(dist.isend, self.input, after, group), dist.P2POp(dist.irecv, self.output, before, group)]
        for work in dist.batch_isend_irecv(ends):
            work.wait()
