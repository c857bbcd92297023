"""What the planner says when it cannot plan."""


class PlanError(ValueError):
    """Bad input: the message names the place, the thing, its value and what is allowed."""
