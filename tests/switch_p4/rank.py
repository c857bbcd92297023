"""One rank of the end-to-end test: python rank.py RANK SIZE STORE OUT. All-reduces what `tensors` makes, saves the results."""

import datetime
import sys

import torch
import torch.distributed as dist


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
    return out


def main():
    rank, size, store, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    torch.set_num_threads(1)
    dist.init_process_group(
        "switchml", init_method=f"file://{store}", rank=rank, world_size=size, timeout=datetime.timedelta(seconds=120)
    )
    import switchml

    results = []
    for tensor, operation in tensors(rank):
        dist.all_reduce(tensor, op=operation)
        results.append(tensor)
    stats = switchml.stats()
    torch.save({"results": results, "stats": stats}, out)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
