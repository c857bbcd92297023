"""Small cases: the plan's rates are those of a search through all trees."""

import every_tree
import random_cases
from loaded import planner
import pytest
from plan_rules import violations

UNBOUNDED = planner.Options(shares=None)


@pytest.mark.parametrize("seed", range(40))
def test_rates_are_those_of_an_exhaustive_search(seed):
    topology, jobs = random_cases.small_case(seed)
    best = every_tree.best_rates(topology, jobs)
    if best is None:
        pytest.skip("too many trees, or none, for an exhaustive search")
    plan = planner.plan(topology, jobs, options=UNBOUNDED)
    assert violations(plan) == []
    assert [one.rate for one in plan.assignments] == pytest.approx(best, rel=1e-5)
    assert plan.bound == pytest.approx(min(rate / job.weight for rate, job in zip(best, jobs)), rel=1e-5)
