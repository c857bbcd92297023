"""Tables of the documentation, and what switchml.stats() counts of the calls that docs/collectives.md speaks of."""

import collections
import os
import re
import sys

import torch.distributed as dist

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def tables(page):
    """[[{column: cell}]]: the tables of a page, in order; those without rows are left out."""
    found, header = [], None
    with open(os.path.join(ROOT, page)) as stream:
        for line in stream:
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if not line.startswith("|"):
                header = None
            elif header is None:
                header = cells
                found.append([])
            elif not set(line.strip()) <= set("|-"):
                found[-1].append(dict(zip(header, cells)))
    return [rows for rows in found if rows]


def snippet(page, section):
    """The first Python of a section."""
    with open(os.path.join(ROOT, page)) as stream:
        text = stream.read().partition(f"# {section}\n")[2]
    return text.partition("```python\n")[2].partition("```")[0]


def names_in(cell):
    return re.findall(r"`(\w+)`", cell)


WAYS, BY_TYPE, REDUCTIONS, OTHERS = (
    rows for rows in tables("docs/collectives.md") if next(iter(rows[0])) in ("way", "types", "collective", "call")
)
COUNTED_AS = {names_in(row["collective"])[0]: names_in(row["counted as"])[0] for row in REDUCTIONS}


def documented_way(name, column):
    """The way of the calls that are counted under that name, where the precision is `exact`; sums, of reductions."""
    if name in COUNTED_AS.values():
        return "switch"
    (way,) = {row[column] for row in OTHERS if name in names_in(row["counted as"])}
    return way


def counts(group=None):
    """(name, way) -> calls, of that group, else the default group. The tables have one word for switch and memory."""
    calls = sys.modules["switchml"].stats(group)["calls"]
    return {
        (name, "switch" if way == "memory" else way): count
        for name, ways in calls.items()
        for way, count in ways.items()
    }


def all_counts():
    """The same of all groups of this process that are of the backend."""
    total = collections.Counter()
    for group in dist.distributed_c10d._world.pg_map:
        if dist.get_backend(group) == "switchml":
            total.update(counts(group))
    return total
