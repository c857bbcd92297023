"""Sparse data: blocks of zeros are left out on the way, and every bit of the result is that of whole tensors."""

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import harness
from oracle import BLOCK, check_reduction, digest, operation, values
from test_damage import FAULTS
from test_exact import ranks_at

pytestmark = pytest.mark.skipif(harness.BACKEND == "gloo", reason="Gloo sends all zeros")

#: Type, elements and operation; lengths that end within a block, or before one.
CALLS = (
    (torch.float32, 100_003, "SUM"),
    (torch.float32, 70_000, "AVG"),
    (torch.bfloat16, 50_001, "SUM"),
    (torch.float64, 9_001, "PRODUCT"),
    (torch.int64, 8_192, "SUM"),
    (torch.int8, 300_001, "MIN"),
    (torch.float16, 33_333, "MAX"),
    (torch.int32, 5_000, "BOR"),
    (torch.float32, 100, "SUM"),
)


def sparse(count, dtype, rank, seed, zeros=0.9):
    """Values, of whose blocks so many are zero; -0, NaN and infinities are somewhere in the others."""
    tensor = values((count,), dtype, rank, seed)
    if dtype.is_floating_point:
        odd = torch.rand(count, generator=torch.Generator().manual_seed(seed + rank))
        tensor[odd < 0.2] = -0.0
        tensor[odd > 0.9999] = float("nan") if rank else float("inf")
    generator = torch.Generator().manual_seed(7 * seed + 100 * rank)
    blocks = torch.rand(-(-count // BLOCK), generator=generator) < zeros
    tensor[blocks.repeat_interleave(BLOCK)[:count]] = 0
    return tensor


def blocks_left_out():
    import switchml

    return switchml.stats()["zero_blocks_left_out"]


def rank_reduce_all():
    """(digest of all results, blocks that this rank left out)"""
    results = []
    for seed, (dtype, count, name) in enumerate(CALLS):
        for zeros in (0.9, 0.5, 1.0):
            mine = sparse(count, dtype, dist.get_rank(), seed, zeros)
            dist.all_reduce(mine, op=operation(name))
            results.append(mine)
    return digest(*results), blocks_left_out()


def found(pool):
    """The digest that all ranks have, and how many blocks each has left out."""
    outcomes = pool.run(rank_reduce_all)
    assert len({bits for bits, _ in outcomes}) == 1, "ranks ended with different bits"
    return outcomes[0][0], [count for _, count in outcomes]


@pytest.mark.parametrize("size", (2, 3, 4))
def test_the_bits_are_those_of_whole_tensors(size):
    with ranks_at("memory", size) as pool:
        whole, left_out = found(pool)
    assert left_out == [0] * size
    for place in ("embedded switch", "embedded switch over TCP", "switchml-switchd"):
        with ranks_at(place, size) as pool:
            bits, left_out = found(pool)
        assert bits == whole, place
        assert min(left_out) > 1000, f"{place}: {left_out}"


@pytest.mark.parametrize("transport", ("udp", "tcp"))
def test_the_bits_are_the_same_through_loss(transport):
    with ranks_at("memory", 3) as pool:
        whole, _ = found(pool)
    environment = {
        "SWITCHML_TRANSPORT": transport,
        "SWITCHML_PAYLOAD": "1408",
        "SWITCHML_FAULTS": FAULTS.format(seed=5) if transport == "udp" else "",
    }
    with harness.fresh_pool(3, environment=environment, with_gloo=False) as pool:
        bits, left_out = found(pool)
    assert bits == whole
    assert min(left_out) > 1000


def rank_check_sums():
    """Against the sums themselves; then how many blocks were left out of dense data."""
    size, rank = dist.get_world_size(), dist.get_rank()
    inputs = [values((100_003,), torch.float32, source, 3) for source in range(size)]
    for source, tensor in enumerate(inputs):
        tensor[source * BLOCK :: 5] = 0
        tensor.view(-1)[: 40 * BLOCK * (source + 1)] = 0
    mine = inputs[rank].clone()
    dist.all_reduce(mine)
    check_reduction(mine, inputs, "SUM")
    scattered = torch.zeros(50_000)
    dist.reduce_scatter_tensor(scattered, inputs[rank][:100_000].repeat(size // 2))
    check_reduction(
        scattered, [x[:100_000] for x in inputs], "SUM", slice(50_000 * (rank % 2), 50_000 * (rank % 2 + 1))
    )
    before = blocks_left_out()
    dense = torch.full((100_000,), 0.5)
    dense[::17] = 0
    dist.all_reduce(dense)
    return before, blocks_left_out() - before


def test_sums_are_right_and_dense_data_is_left_alone():
    with ranks_at("embedded switch over TCP", 4) as pool:
        for before, dense in pool.run(rank_check_sums):
            assert before > 100
            assert dense == 0


class Words(torch.nn.Module):
    def __init__(self, is_sparse):
        super().__init__()
        self.table = torch.nn.Embedding(1000, 64, sparse=is_sparse)
        self.head = torch.nn.Linear(64, 3)

    def forward(self, words):
        return self.head(self.table(words).sum(1))


def rank_train(is_sparse):
    """Gradients of an embedding after a step of DDP, and the blocks that were left out."""
    torch.manual_seed(1)
    model = DistributedDataParallel(Words(is_sparse))
    words = torch.randint(0, 1000, (4, 5), generator=torch.Generator().manual_seed(dist.get_rank()))
    model(words).square().sum().backward()
    gradient = model.module.table.weight.grad
    assert gradient.is_sparse == is_sparse
    return gradient.to_dense(), blocks_left_out()


@pytest.mark.parametrize("place", ("memory", "embedded switch over TCP"))
def test_ddp_with_sparse_embeddings(place):
    """A sparse gradient is that of all ranks, as a dense one is; of that most blocks are left out."""
    with ranks_at(place, 3) as pool:
        as_sparse, as_dense = pool.run(rank_train, True), pool.run(rank_train, False)
    for (gradient, _), (other, left_out) in zip(as_sparse, as_dense):
        torch.testing.assert_close(gradient, other)
        assert torch.equal(gradient, as_sparse[0][0])
        assert gradient.any(), "the test tests nothing"
        assert (left_out > 100) == (place != "memory")
