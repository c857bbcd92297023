"""What the planner says when it cannot plan."""


class PlanError(ValueError):
    """Bad input: the message names the place, the thing, its value and what is allowed."""


class PlanWarning(UserWarning):
    """A job that cannot be planned, and why; the plan has the others."""
