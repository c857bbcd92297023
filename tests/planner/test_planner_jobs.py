"""Several jobs: max-min fair rates, weights, limits, and jobs that cannot be planned."""

import pytest
from loaded import planner
from plan_rules import violations

G = 1e9
WIDE, THIN = 100 * G, 10 * G


def leaf_spine(spines=1, capacity=None):
    """Two leaves with four workers each; links between switches are thin."""
    nodes = [planner.Node(f"spine{number}") for number in range(spines)]
    nodes += [planner.Node(name, capacity=capacity) for name in ("leaf0", "leaf1")]
    links = [
        planner.Link((leaf, f"spine{number}"), (THIN, THIN)) for leaf in ("leaf0", "leaf1") for number in range(spines)
    ]
    for number in range(8):
        nodes.append(planner.Node.worker(f"w{number}"))
        links.append(planner.Link((f"w{number}", f"leaf{number // 4}"), (WIDE, WIDE)))
    return planner.Topology(nodes, links)


def rates(topology, *jobs, **options):
    plan = planner.plan(topology, list(jobs), options=planner.Options(**options))
    assert violations(plan) == []
    return [one.rate / G for one in plan.assignments]


def test_jobs_that_cross_a_link_have_equal_rates_and_others_the_rest():
    topology = leaf_spine()
    first, second = (planner.Job(f"across{number}", (f"w{number}", f"w{4 + number}")) for number in (0, 1))
    inside = planner.Job("inside", ("w2", "w3"))
    assert rates(topology, first, second, inside) == pytest.approx([5, 5, 100], rel=1e-6)


def test_weights_and_limits():
    topology = leaf_spine()
    heavy = planner.Job("heavy", ("w0", "w4"), weight=3)
    light = planner.Job("light", ("w1", "w5"))
    assert rates(topology, heavy, light) == pytest.approx([7.5, 2.5], rel=1e-6)
    limited = planner.Job("limited", ("w2", "w6"), limit=1 * G)
    assert rates(topology, heavy, light, limited) == pytest.approx([6.75, 2.25, 1], rel=1e-6)


def test_two_spines_are_both_used():
    topology = leaf_spine(spines=2)
    everybody = planner.Job("all", tuple(f"w{number}" for number in range(8)))
    assert rates(topology, everybody) == pytest.approx([20], rel=1e-6)
    assert rates(topology, everybody, shares=1) == pytest.approx([10], rel=1e-6)


def test_a_job_whose_workers_are_cut_off_says_so_and_others_are_planned():
    topology = leaf_spine().without("spine0")
    across, inside = planner.Job("across", ("w0", "w4")), planner.Job("inside", ("w2", "w3"))
    plan = planner.plan(topology, [across, inside])
    assert violations(plan) == []
    assert plan.assignments[0].reason == "there is no aggregator that all its workers reach"
    assert plan.assignments[1].rate == pytest.approx(100 * G)


@pytest.mark.filterwarnings("ignore:job")
def test_reasons_name_what_is_missing():
    topology = leaf_spine()
    rooted = planner.Job("rooted", ("w0", "w1"), root="leaf1")
    for failed, reason in (
        (["w0"], "worker w0 is not there"),
        (["leaf1"], "root leaf1 is not there, or does not aggregate"),
        (["spine0"], "worker w0 has no route to root leaf1"),
    ):
        (one,) = planner.plan(topology.without(*failed), [rooted]).assignments
        assert one.reason == reason and not one.shares


@pytest.mark.parametrize("failed", ("spine7", ("leaf0", "leaf1"), ("leaf0", "leaf0"), ("w0", "spine7")))
def test_what_is_not_there_has_not_failed(failed):
    with pytest.raises(planner.PlanError) as error:
        leaf_spine().without("w0", failed)
    assert str(error.value) == f"{failed!r} has not failed: the topology has no such node or link"


def test_nothing_to_plan():
    plan = planner.plan(leaf_spine(), [])
    assert plan.assignments == () and plan.least == 0 and plan.bound is None


def test_plans_are_the_same_every_time():
    topology = leaf_spine(spines=2, capacity=25 * G)
    jobs = [planner.Job(f"job{number}", (f"w{number}", f"w{number + 4}", "w3")) for number in range(3)]
    plans = [planner.plan(topology, jobs, options=planner.Options(shares=2, seed=7)) for _ in range(2)]
    assert plans[0].assignments == plans[1].assignments


@pytest.mark.parametrize("solved", [0, 1, 2])
def test_a_solver_that_fails_costs_fairness_and_no_capacity(monkeypatch, solved):
    from planner import fair

    calls = iter([fair._solved] * solved)
    monkeypatch.setattr(fair, "_solved", lambda *program: next(calls, lambda *_: None)(*program))
    topology = leaf_spine(spines=2, capacity=25 * G)
    jobs = [planner.Job(f"job{number}", (f"w{number}", f"w{number + 4}"), limit=9 * G) for number in range(3)]
    plan = planner.plan(topology, jobs)
    assert violations(plan, most=4) == [] and plan.least > 0
