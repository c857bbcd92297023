"""benchmarks/movements: that its check finds what is wrong, of each collective."""

import sys

import pytest
import torch
from benchmark_tools import BENCHMARKS, main_of

RANKS, SIZE = 4, 64


class Rank:
    """In place of torch.distributed: one of several ranks."""

    def __init__(self, rank):
        self.rank = rank

    def get_rank(self):
        return self.rank

    def get_world_size(self):
        return RANKS


@pytest.fixture
def made(monkeypatch):
    """Of each rank: its movement, before and after Gloo's call would have been made by hand."""
    monkeypatch.syspath_prepend(str(BENCHMARKS / "movements"))
    monkeypatch.delitem(sys.modules, "worker", raising=False)
    import worker

    def make(collective):
        movements = []
        for rank in range(RANKS):
            monkeypatch.setattr(worker, "dist", Rank(rank))
            movements.append(worker.Movement(collective, SIZE))
            movements[-1].fill()
        return movements

    yield make
    sys.modules.pop("worker", None)


def move(collective, ranks):
    """What the collective does."""
    parts, wholes = [one.part.clone() for one in ranks], [one.whole.clone() for one in ranks]
    for number, one in enumerate(ranks):
        if collective == "broadcast":
            one.whole.copy_(wholes[0])
        elif "gather" in collective and (number == 0 or collective != "gather"):
            one.other.copy_(torch.cat(parts))
        elif collective == "scatter":
            one.part.copy_(wholes[0].chunk(RANKS)[number])
        elif collective == "all_to_all_single":
            one.other.copy_(torch.cat([whole.chunk(RANKS)[number] for whole in wholes]))
        elif collective == "reduce_scatter_tensor":
            one.part.copy_(torch.stack(wholes).sum(0).chunk(RANKS)[number])
        elif collective in ("one_after_another", "together"):
            one.other.copy_(torch.cat(parts))
            one.sums.copy_(torch.stack(wholes).sum(0).chunk(RANKS)[number])


@pytest.mark.parametrize("collective", main_of("movements").COLLECTIVES)
def test_a_wrong_element_is_found(made, collective):
    ranks = made(collective)
    move(collective, ranks)
    for one in ranks:
        one.check("ours")
        for tensor, _ in one.results():
            kept = tensor[1].item()
            tensor[1] += 1
            with pytest.raises(ValueError, match=f"ours, {collective}, tensor [0-9]+: element 1 is"):
                one.check("ours")
            tensor[1] = kept
    assert any(one.results() for one in ranks)


def test_what_nobody_moved_is_wrong(made):
    for collective in main_of("movements").COLLECTIVES:
        last = made(collective)[1 if collective != "gather" else 0]
        with pytest.raises(ValueError):
            last.check("ours")
