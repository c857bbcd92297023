"""What was measured, and its comparison with a target. Results are those of parts.py, by the names of their files.

Each group of targets gives [(what, target, measure)]; measure(results) is (text, met), or raises Missing.
"""

import report

MIB, KIB = 1 << 20, 1 << 10
RANKS = (2, 4, 8)


class Missing(Exception):
    """A figure that a target needs was not measured: why."""


class Results:
    """files: {name: content}. absent: {name: why there is none}."""

    def __init__(self, files, absent):
        self.files, self.absent = files, absent

    def file(self, name):
        if name not in self.files:
            raise Missing(self.absent.get(name, f"{name}.json is missing: its part has not run"))
        return self.files[name]

    def row(self, name, ranks, size, kind="float32", loss=0.0):
        """Of benchmarks/allreduce."""
        for run in self.file(name)["runs"]:
            for row in run["rows"]:
                if (run["ranks"], row["bytes"], row["type"], row["loss"]) == (ranks, size, kind, loss):
                    return row
        raise Missing(
            f"{name}.json has no {ranks} ranks with {report.format_bytes(size)} of {kind} and a loss of {loss:.2%}"
        )

    def seconds(self, name, ranks, size, backend="switchml", kind="float32", q=0.5, loss=0.0):
        row = self.row(name, ranks, size, kind, loss)
        if backend not in row["seconds"]:
            raise Missing(f"{name}.json has nothing of {backend}")
        return report.median(row, backend) if q == 0.5 else report.quantile(row["seconds"][backend], q)

    def over_gloo(self, name, ranks, size, **which):
        """(ratio, as text with both times)"""
        ours, gloo = (self.seconds(name, ranks, size, backend, **which) for backend in ("switchml", "gloo"))
        return ours / gloo, f"{ours / gloo:.2f} ({report.format_seconds(ours)} / {report.format_seconds(gloo)})"

    def with_zeros(self, name, ranks):
        """{part of the blocks that are zero: row}"""
        run = next((run for run in self.file(name)["runs"] if run["ranks"] == ranks), None)
        if run is None:
            raise Missing(f"{name}.json has no {ranks} ranks")
        return {row["zeros"]: row for row in run["rows"]}

    def of_limit(self, name, ranks, size, kind):
        row = self.row(name, ranks, size, kind)
        return row["limit_seconds"]["switchml"] / report.median(row, "switchml")


def require_one_rate(results, *names):
    """Times are compared of links of one rate."""
    rates = {name: run.get("rate") for name in names for run in results.file(name)["runs"]}
    if len(set(rates.values())) > 1:
        raise Missing(
            "links of different rates: " + ", ".join(f"{name}.json {rate} Mbit/s" for name, rate in rates.items())
        )


def at_least(low, value, text):
    return text, value >= low


def at_most(high, value, text):
    return text, value <= high


def each(values):
    return ", ".join(f"{kind} {value:.3f}" for kind, value in values.items())


def each_at_least(low, values):
    """values: {type: value}"""
    return at_least(low, min(values.values()), each(values))


def each_at_most(high, values):
    return at_most(high, max(values.values()), each(values))
