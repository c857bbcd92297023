"""The example of GRID: eight workers, three switches and a parameter server. Rates are those of its figure."""

import pytest
from loaded import ROOT, planner
from plan_rules import violations

G = 1e9


@pytest.fixture(scope="module")
def example():
    folder = ROOT / "examples" / "planning"
    topology = planner.read_topology(folder / "topology.yaml")
    return topology, planner.read_jobs(folder / "jobs.yaml", topology)


@pytest.mark.parametrize("way, rate", [("none", 1.0), ("nearest", 9 / 4 + 0.75 / 4), ("planned", 3.0)])
def test_rates_are_those_of_the_paper(example, way, rate):
    plan = planner.plan(*example, way)
    assert violations(plan, most=4) == []
    assert plan.assignments[0].rate == pytest.approx(rate * G, rel=1e-7)


def test_the_plan_cannot_be_better(example):
    assert planner.plan(*example).bound == pytest.approx(3 * G)


def test_a_ring_on_the_same_links(example):
    # Every link of 3G carries one flow of 2 x 7/8 bits for each bit of the tensor.
    assert planner.ring_rates(*example)["training"] == pytest.approx(3 * G * 8 / 14)


def test_what_nearest_leaves_at_a_full_switch_goes_to_the_next(example):
    first, second = planner.plan(*example, "nearest").assignments[0].shares
    assert first.rate == pytest.approx(9 * G / 4) and first.tree.parent("W1") == "S1"
    assert second.rate == pytest.approx(0.75 * G / 4) and second.tree.parent("W1") == "S3"


def test_one_share_alone_reaches_it_too(example):
    plan = planner.plan(*example, options=planner.Options(shares=1))
    assert violations(plan, most=1) == []
    assert plan.least >= 2.25 * G * (1 - 1e-6)


def test_routes_can_be_restricted(example):
    """W4 cannot go around the full link by a shortest route."""
    shortest = planner.plan(*example, "none", planner.Options(routes="shortest"))
    assert shortest.least == pytest.approx(0.75 * G)
    two = planner.plan(*example, "none", planner.Options(routes=2))
    assert two.least == pytest.approx(1 * G)


def test_loads_are_those_of_the_trees(example):
    plan = planner.plan(*example, "nearest")
    assert plan.link_loads()["S1", "S3"] == pytest.approx(3 * G)
    assert plan.link_loads()["S3", "S1"] == pytest.approx(3 * G)
    assert plan.aggregator_loads()["S1"] == pytest.approx(9 * G)
    assert plan.aggregator_loads()["PS"] == pytest.approx((3 * 2.25 + 2 * 0.1875) * G)
