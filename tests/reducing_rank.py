"""One rank of a test of a whole network: python reducing_rank.py RANK SIZE STORE OUT. All-reduces what `tensors` makes
and saves the results; `run_ranks` and `assert_same` are for the test."""

import datetime
import sys

import torch
import torch.distributed as dist

#: Elements up to which a sum goes exactly beside a switch of integers (kFewElements in
# backend/engine/paired_engine.h).
FEW = 8192


def tensors(rank):
    """Of many types, operations and lengths: around a chunk of 64 or 256 words, and several windows of slots."""
    random = torch.Generator().manual_seed(1000 + rank)
    out = []
    for length in (1, 63, 64, 65, 1000, 20000):
        out.append((torch.randn(length, generator=random), dist.ReduceOp.SUM))
    out.append((torch.randn(3000, generator=random).bfloat16(), dist.ReduceOp.SUM))
    out.append((torch.randn(500, generator=random) * 1e-30, dist.ReduceOp.AVG))
    out.append((torch.randint(-(2**31), 2**31 - 1, (300,), generator=random, dtype=torch.int32), dist.ReduceOp.SUM))
    out.append((torch.randint(-(2**62), 2**62, (100,), generator=random), dist.ReduceOp.SUM))
    out.append((torch.randn(700, generator=random), dist.ReduceOp.MAX))
    out.append((torch.randint(-128, 127, (129,), generator=random, dtype=torch.int8), dist.ReduceOp.MIN))
    special = torch.randn(130, generator=random)
    special[3 + rank], special[64 + rank] = float("inf"), float("nan")
    out.append((special, dist.ReduceOp.SUM))
    sparse = torch.randn(3000, generator=random)
    sparse[(torch.rand(12, generator=random) < 0.8).repeat_interleave(256)[:3000]] = 0  # blocks
    out.append((sparse, dist.ReduceOp.SUM))
    return out


def run_ranks(lab, name, namespaces, settings, seconds=240):
    """Runs a rank in each namespace (None: the test's own) of a lab.Lab; [{"results": [tensor], "stats": dict}]."""
    store, outs = lab.folder / f"{name}.store", [lab.folder / f"{name}-{rank}.pt" for rank in range(len(namespaces))]
    ranks = {
        f"{name}-{rank}": lab.fork(
            f"{name}-{rank}", __file__, rank, len(namespaces), store, outs[rank], namespace=namespace, **settings
        )
        for rank, namespace in enumerate(namespaces)
    }
    lab.finish(ranks, seconds)
    return [torch.load(out, weights_only=False) for out in outs]


def assert_same(got, expected):
    """The same bits on every rank, all of them by a switch."""
    assert len(got) == len(expected)
    for rank, (ours, theirs) in enumerate(zip(got, expected)):
        assert ours["stats"]["calls_switch"] + ours["stats"]["calls_memory"] == len(theirs["results"])
        for i, (tensor, reference) in enumerate(zip(ours["results"], theirs["results"], strict=True)):
            integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
            assert tensor.dtype == reference.dtype, f"rank {rank}, tensor {i}"
            assert torch.equal(tensor.view(integers), reference.view(integers)), f"rank {rank}, tensor {i}"


def mixed(of_integers, exact):
    """What ranks must get that send large tensors to a switch of integers, and add small ones themselves: of two
    results of run_ranks, that of such a switch alone, and that of ranks alone."""
    large = [tensor.numel() > FEW for tensor in exact[0]["results"]]
    assert 0 < sum(large) < len(large)
    return [
        {
            "results": [
                a if is_large else b for a, b, is_large in zip(theirs["results"], ours["results"], large, strict=True)
            ]
        }
        for theirs, ours in zip(of_integers, exact, strict=True)
    ]


def main():
    rank, size, store, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    torch.set_num_threads(1)
    import switchml  # before PyTorch 2.5 nothing else registers the backend

    dist.init_process_group(
        "switchml", init_method=f"file://{store}", rank=rank, world_size=size, timeout=datetime.timedelta(seconds=120)
    )
    results = []
    for tensor, operation in tensors(rank):
        dist.all_reduce(tensor, op=operation)
        results.append(tensor)
    stats = switchml.stats()
    torch.save({"results": results, "stats": stats}, out)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
