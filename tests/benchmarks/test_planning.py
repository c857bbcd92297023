"""benchmarks/planning: what it makes of a plan. Nothing is measured."""

import pytest
from benchmark_tools import BENCHMARKS, ROOT, main_of

EXAMPLE = ROOT / "examples" / "planning"


@pytest.fixture
def planner(monkeypatch):
    for name in ("numpy", "scipy", "networkx", "yaml"):
        pytest.importorskip(name, reason="needs switchml[planner]")
    monkeypatch.syspath_prepend(str(ROOT / "python"))
    monkeypatch.syspath_prepend(str(BENCHMARKS / "planning"))
    from _switchml_entry import load_planner

    return load_planner("planner", str(ROOT / "python" / "switchml" / "planner"))


def test_each_way_of_the_example(planner):
    import planned_ways
    from pinned_routes import pins

    topology = planner.read_topology(EXAMPLE / "topology.yaml")
    (job,) = planner.read_jobs(EXAMPLE / "jobs.yaml", topology)
    rates = {}
    for way in ("none", "nearest", "planned", "ring"):
        plan, rates[way] = planned_ways.plan_of(planner, topology, job, way)
        for (node, _, destination), following in pins(trees(plan)).items() if plan else ():
            assert topology.link(node, following) and node != destination
    assert rates == pytest.approx({"none": 1e9, "nearest": 2.4375e9, "planned": 3e9, "ring": 12e9 / 7})


def trees(plan):
    return [share.tree.routes for share in plan.assignments[0].shares]


def test_without_aggregation_one_worker_goes_round(planner):
    import planned_ways

    topology = planner.read_topology(EXAMPLE / "topology.yaml")
    (job,) = planner.read_jobs(EXAMPLE / "jobs.yaml", topology)
    (routes,) = trees(planned_ways.plan_of(planner, topology, job, "none")[0])
    crossings = [list(zip(route, route[1:])) for route in routes.values()]
    assert sum(("S1", "S3") in each for each in crossings) == 3
    assert sum(("S2", "S3") in each for each in crossings) == 3


def test_the_addresses_are_those_of_the_file(planner):
    import planned_ways

    found = planned_ways.addresses_of((EXAMPLE / "topology.yaml").read_text())
    assert found["S1"] == "10.0.0.1" and found["W8"] == "10.0.3.8" and len(found) == 12


def test_routes_that_addresses_cannot_tell_apart_are_refused(planner):
    from pinned_routes import Ambiguous, pins

    with pytest.raises(Ambiguous, match="from a to c by"):
        pins([{"a": ("a", "c")}, {"a": ("a", "b", "c")}])


def test_packets_take_the_fewest_links_and_pass_only_what_forwards(planner):
    from pinned_routes import next_hops

    hops = next_hops([("a", "s"), ("s", "t"), ("t", "b"), ("a", "host"), ("host", "b")], {"s", "t"})
    assert (hops["a", "b"], hops["s", "b"], hops["host", "a"]) == ("s", "t", "a")
    assert ("host", "s") not in hops


def test_a_row_has_the_slowest_ranks_time():
    main = main_of("planning")

    class Arguments:
        size, unit = 1 << 20, 2.0

    answers = [
        {"seconds": [1.0, 4.0], "moved": {"busy": 1, "ticks": 4}, "counters": {"retransmissions": 2}},
        {"seconds": [2.0, 2.0], "moved": {"busy": 1, "ticks": 4}, "counters": {}},
    ]
    row = main.row_of("planned", [2.0, 4.0], answers, {}, Arguments)
    assert row["rate"] == pytest.approx((1 << 20) * 8 / 3 / 2e6)
    assert row["busy"] == 0.25 and row["again"] == 2
    assert main.OVERHEAD == 1474 / 1408
