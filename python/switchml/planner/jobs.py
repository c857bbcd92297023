"""What is to be planned: jobs. Values only; jobs_file.py reads them."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Job:
    name: str
    workers: tuple  # names
    weight: float = 1.0  # rates are fair in proportion to it
    root: str | None = None  # the aggregator that must be the root of every tree
    limit: float | None = None  # the rate that it can use at most, bits/s
