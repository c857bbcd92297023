"""Random topologies: whatever is planned, no capacity is exceeded, and every tree is one."""

import random_cases
from loaded import planner
import pytest
from plan_rules import violations

BLOCKS = 10


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_capacity_is_exceeded(request, block):
    cases = request.config.getoption("--planner-cases")
    for seed in range(block, cases, BLOCKS):
        topology, jobs = random_cases.case(seed)
        plan = planner.plan(topology, jobs, options=planner.Options(shares=1 + seed % 4, seed=seed))
        assert violations(plan, most=1 + seed % 4) == [], f"seed {seed}"
        assert plan.bound is None or plan.least <= plan.bound * (1 + 1e-6), f"seed {seed}"


@pytest.mark.parametrize("way", ["nearest", "none"])
def test_no_capacity_is_exceeded_in_other_ways(request, way):
    for seed in range(request.config.getoption("--planner-cases") // 5):
        topology, jobs = random_cases.case(seed)
        plan = planner.plan(topology, jobs, way)
        assert violations(plan, most=planner.Options().shares) == [], f"seed {seed}"
