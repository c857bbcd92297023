"""The cheapest tree over a subset of aggregators, beside all trees over it."""

import itertools

import pytest
from loaded import planner  # noqa: F401  loads the package

numpy = pytest.importorskip("numpy")
from planner import subsets  # noqa: E402


def drawn(seed, count=4, sources=3):
    """(costs, d between aggregators, d from sources, workers of sources, z)"""
    dice = numpy.random.default_rng(seed)
    places = dice.random((count + sources, 2))
    far = numpy.abs(places[:, None] - places[None]).sum(axis=2)
    between, attach = far[:count, :count], far[count:, :count]
    counts = dice.integers(1, 4, sources).astype(float)
    intake = dice.choice([0.0, 0.1, 0.5, 2.0], count)
    return subsets.Costs(between, attach, counts, intake), between, attach, counts, intake


def cheapest(members, root, between, attach, counts, intake):
    """Over all ways to give each member but the root a parent."""
    sources = sum(
        number * min(attach[source, one] + intake[one] for one in members) for source, number in enumerate(counts)
    )
    others = [one for one in members if one != root]
    best = numpy.inf
    for parents in itertools.product(members, repeat=len(others)):
        above = dict(zip(others, parents))
        if all(leads(above, one, root) for one in others):
            best = min(best, sum(between[one, above[one]] + intake[above[one]] for one in others))
    return sources + best


def leads(above, one, root):
    for _ in above:
        one = above.get(one, root)
    return one == root


@pytest.mark.parametrize("seed", range(10))
def test_each_subset_costs_what_its_best_tree_does(seed):
    costs, *rest = drawn(seed)
    masks = subsets.every_subset(4)
    for mask, free in zip(masks, costs.of(masks)):
        members = numpy.flatnonzero(mask).tolist()
        rooted = [cheapest(members, root, *rest) for root in members]
        assert free == pytest.approx(min(rooted))
        for root, best in zip(members, rooted):
            assert costs.of(mask[None], root)[0] == pytest.approx(best)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("root", [None, 2])
def test_the_tree_of_a_subset_costs_what_was_said(seed, root):
    costs, between, attach, counts, intake = drawn(seed)
    for mask in subsets.every_subset(4, root):
        top, parents, attached = costs.tree(mask, root)
        total = sum(between[child, parent] + intake[parent] for child, parent in parents.items())
        total += sum(counts[source] * (attach[source, one] + intake[one]) for source, one in enumerate(attached))
        assert total == pytest.approx(costs.of(mask[None], root)[0]) and mask[top]


@pytest.mark.parametrize("seed", range(20))
def test_the_search_finds_a_subset_that_no_neighbour_beats(seed):
    costs, *_ = drawn(seed, count=6, sources=5)
    value, mask = subsets.search(costs, 6)
    assert value == pytest.approx(costs.of(mask[None])[0])
    assert value <= 1.1 * costs.of(subsets.every_subset(6)).min()
