"""Large topologies: the rules hold, and the bound bounds. How fast and how near it is, benchmarks/planner measures."""

import pytest
import random_cases
from loaded import planner
from plan_rules import violations

fat_tree = pytest.importorskip("fat_tree")

SMALL = fat_tree.FatTree(pods=4, edges=6, planes=4, cores=2, hosts=6)


@pytest.mark.parametrize("placement", ["scattered", "packed"])
@pytest.mark.parametrize("capacity", [None, 400e9])
def test_a_fat_tree_of_48_switches(placement, capacity):
    topology = fat_tree.FatTree(4, 6, 4, 2, 6, capacity=capacity).topology()
    assert len(topology.aggregators) == 48
    jobs = fat_tree.place_jobs(topology, 4, 1, placement)
    plan = planner.plan(topology, jobs)
    assert violations(plan, most=4) == []
    assert 0.5 * plan.bound <= plan.least <= plan.bound * (1 + 1e-6)
    assert plan.assignments == planner.plan(topology, jobs).assignments


def test_other_ways_in_a_large_topology():
    topology = SMALL.topology()
    jobs = fat_tree.place_jobs(topology, 3, 1)
    planned = planner.plan(topology, jobs)
    for way in ("none", "nearest"):
        plan = planner.plan(topology, jobs, way)
        assert violations(plan, most=4) == []
        assert 0 < plan.least < planned.least
    none = planner.plan(topology, jobs, "none")
    assert all(share.tree.children() == {share.tree.root: len(jobs[0].workers)} for share in none.shares())


def test_a_failure_moves_only_the_trees_that_it_breaks():
    topology = SMALL.topology()
    jobs = fat_tree.place_jobs(topology, 3, 1)
    plan = planner.plan(topology, jobs)
    assert planner.moved_shares(plan, planner.replan(plan, topology, jobs)) == []
    left = topology.without(plan.assignments[0].shares[0].tree.root)
    again = planner.replan(plan, left, jobs)
    assert violations(again, most=4) == []
    assert again.least >= planner.plan(left, jobs).least * (1 - 1e-4)
    broken = sum(not share.tree.holds_in(left) for share in plan.shares())
    assert broken > 0 and len(planner.moved_shares(plan, again)) <= broken


def test_a_parameter_server_and_workers_of_two_racks():
    topology = SMALL.topology()
    links = [*topology.links.values(), planner.Link(("PS", "core0.0"), (200e9, 200e9))]
    for pod in range(4):
        links.append(planner.Link((f"pod{pod}.edge0.host0", f"pod{pod}.edge1"), (50e9, 50e9)))
    topology = planner.Topology([*topology.nodes.values(), planner.Node("PS", forwards=False, capacity=1e12)], links)
    jobs = [
        planner.Job("rooted", tuple(topology.workers[::3]), root="PS"),
        planner.Job("free", tuple(topology.workers)),
    ]
    plan = planner.plan(topology, jobs)
    assert violations(plan, most=4) == []
    assert 0.5 * plan.bound <= plan.least <= plan.bound * (1 + 1e-6)


@pytest.mark.parametrize("block", range(4))
def test_the_relaxation_bounds_the_best_plan(block):
    from planner.network import Network
    from planner.relaxation import Relaxation

    for seed in range(block, 100, 4):
        topology, jobs = random_cases.case(seed)
        plan = planner.plan(topology, jobs, options=planner.Options(shares=None))
        planned = [one.job for one in plan.assignments if one.shares]
        if planned:
            limits = [job.limit or float("inf") for job in planned]
            assert Relaxation(Network(topology), planned, limits).level() >= plan.least * (1 - 1e-6), f"seed {seed}"
