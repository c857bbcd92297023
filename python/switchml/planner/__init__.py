"""Plans in-network aggregation: which switches and hosts combine which share of a job's gradients, over which links.

    from switchml import planner

    topology = planner.read_topology("topology.yaml")
    plan = planner.plan(topology, planner.read_jobs("jobs.yaml", topology))

docs/planning.md has the model, and how to install it without PyTorch."""

from .errors import PlanError, PlanWarning
from .jobs import Job
from .jobs_file import read_jobs
from .plan import Assignment, Plan, Share, Tree
from .plan_json import plan_to_json, read_plan, write_plan
from .planning import Options, plan
from .replanning import moved_shares, replan
from .ring import ring_rates
from .topology import Link, Node, Topology
from .topology_file import read_topology

__all__ = [
    "Assignment",
    "Job",
    "Link",
    "Node",
    "Options",
    "Plan",
    "PlanError",
    "PlanWarning",
    "Share",
    "Topology",
    "Tree",
    "moved_shares",
    "plan",
    "plan_to_json",
    "read_jobs",
    "read_plan",
    "read_topology",
    "replan",
    "ring_rates",
    "write_plan",
]
