"""Planning again: what holds is kept where that costs no rate."""

import pytest
import random_cases
from loaded import planner
from plan_rules import violations
from test_planner_jobs import leaf_spine

G = 1e9


def jobs_across(count):
    return [planner.Job(f"job{number}", (f"w{number}", f"w{number + 4}")) for number in range(count)]


def test_without_a_change_everything_is_kept():
    topology, jobs = leaf_spine(spines=3), jobs_across(3)
    plan = planner.plan(topology, jobs)
    again = planner.replan(plan, topology, jobs)
    assert planner.moved_shares(plan, again) == []
    assert [one.rate for one in again.assignments] == pytest.approx([one.rate for one in plan.assignments])


def test_a_failed_switch_moves_only_what_used_it():
    topology, jobs = leaf_spine(spines=3), jobs_across(2)
    plan = planner.plan(topology, jobs)
    left = topology.without("spine1")
    again = planner.replan(plan, left, jobs)
    assert violations(again, most=4) == []
    assert again.least == pytest.approx(10 * G, rel=1e-5)  # two spines of 10G for two jobs
    held = sum(share.tree.holds_in(left) for one in plan.assignments for share in one.shares)
    assert len(again.shares()) - len(planner.moved_shares(plan, again)) == held > 0


def test_a_failed_link_is_not_crossed():
    topology, jobs = leaf_spine(spines=2), jobs_across(2)
    left = topology.without(("leaf0", "spine1"))
    again = planner.replan(planner.plan(topology, jobs), left, jobs)
    assert violations(again, most=4) == []
    assert again.least == pytest.approx(5 * G, rel=1e-5)


def test_a_job_that_comes_or_goes():
    topology, jobs = leaf_spine(spines=2), jobs_across(3)
    two = planner.plan(topology, jobs[:2])
    three = planner.replan(two, topology, jobs)
    assert [one.rate / G for one in three.assignments] == pytest.approx([20 / 3] * 3, rel=1e-5)
    assert violations(three, most=4) == []
    one = planner.replan(three, topology, jobs[2:])
    assert one.assignments[0].rate == pytest.approx(20 * G, rel=1e-5)


def test_a_job_with_other_workers_is_planned_anew():
    topology = leaf_spine()
    plan = planner.plan(topology, [planner.Job("job", ("w0", "w4"))])
    again = planner.replan(plan, topology, [planner.Job("job", ("w0", "w5"))])
    assert violations(again) == [] and planner.moved_shares(plan, again)


@pytest.mark.filterwarnings("ignore:job")  # some have no plan then
@pytest.mark.parametrize("block", range(4))
def test_random_failures_cost_no_more_than_a_new_plan(block):
    for seed in range(block, 60, 4):
        topology, jobs = random_cases.case(seed)
        plan = planner.plan(topology, jobs)
        left = topology.without(list(topology.nodes)[seed % len(topology.nodes)])
        again, fresh = planner.replan(plan, left, jobs), planner.plan(left, jobs)
        assert violations(again, most=4) == [], f"seed {seed}"
        assert again.least >= fresh.least * (1 - 1e-4), f"seed {seed}"
        assert again.assignments == planner.replan(plan, left, jobs).assignments, f"seed {seed}"
        unmoved = planner.replan(plan, topology, jobs)
        assert planner.moved_shares(plan, unmoved) == [], f"seed {seed}"
