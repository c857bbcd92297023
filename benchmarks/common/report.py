"""Figures and tables; a run is what benchmarks/allreduce has of one number of ranks on one network, a row what it has
of one size there."""

import json
import math
import pathlib
import statistics
import sys
import typing

import repository  # noqa: F401  the path to _figures
from _figures import format_bytes

P999_CALLS = 1000  # of fewer, the 99.9th percentile is the longest


def quantile(ordered, q):
    """Nearest-rank quantile of a sorted list."""
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def median(row, backend):
    return statistics.median(row["seconds"][backend])


def format_seconds(seconds):
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} us"
    if seconds < 1:
        return f"{seconds * 1e3:.2f} ms"
    return f"{seconds:.3f} s"


def format_rate(bits_per_second):
    """Mbit/s, as links are."""
    return f"{bits_per_second / 1e6:.1f}"


def jain(rates):
    """Jain's index of fairness: 1 where all are alike, 1 / n where one of n has everything."""
    return sum(rates) ** 2 / (len(rates) * sum(rate * rate for rate in rates))


def print_columns(headings, rows):
    widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]
    for row in [headings, *rows]:
        print("  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths)))


# ---- benchmarks/allreduce ----


def links(rate):
    """rate: of a key."""
    return "links without a limit" if rate == math.inf else f"links of {rate} Mbit/s"


def print_run(run, backends):
    rate = link_rate(run)
    where = f", {links(rate)}, MTU {run['mtu']}{', bursts taken as one' if run.get('offload') else ''}" if rate else ""
    where += ", no switch named" if run.get("no_switch") else ""
    per_host = f" ({run['per_host']} per host)" if run["per_host"] > 1 else ""
    behind = f", each behind one of {format_bytes(run['behind'])}" if run.get("behind") else ""
    print(f"\nall-reduce, SUM, {run['ranks']} ranks{per_host}{where}{behind}, torch {run['torch']}")
    (print_network if rate else print_one_host)(run, backends)
    memory = [row["memory"] for row in run["rows"]]
    print(
        f"memory of the heaviest rank after the first and the last size: switchml "
        f"{format_bytes(memory[0]['switchml_bytes'])} and {format_bytes(memory[-1]['switchml_bytes'])}; "
        f"process growth {format_bytes(memory[0]['process_growth_bytes'])} and "
        f"{format_bytes(memory[-1]['process_growth_bytes'])}\n",
        flush=True,
    )


def print_one_host(run, backends):
    headings = ["type", "size", "payload", "calls"]
    for name in backends:
        headings += [f"{name} p50", "p99", "p99.9", "CPU ns/B"]
    if len(backends) > 1:
        headings.append("ratio")
    rows = []
    for row in run["rows"]:
        cells = [row["type"], format_bytes(row["bytes"]), str(row["payload"] or "-"), str(row["calls"])]
        for name in backends:
            cells += [format_seconds(median(row, name)), format_seconds(quantile(row["seconds"][name], 0.99))]
            cells.append(format_seconds(quantile(row["seconds"][name], 0.999)) if row["calls"] >= P999_CALLS else "-")
            cells.append(cpu_per_byte(run, row, name))
        if len(backends) > 1:
            cells.append(f"{median(row, backends[0]) / median(row, backends[1]):.2f}")
        rows.append(cells)
    print_columns(headings, rows)


def cpu_per_byte(run, row, backend):
    """Nanoseconds of a rank's CPU time for each byte of the tensor."""
    return f"{row['cpu_seconds'][backend] / row['calls'] / run['ranks'] / row['bytes'] * 1e9:.2f}"


def print_network(run, backends):
    """A line per size and backend; "again" is what was sent more than once: packets of switchml, segments of TCP."""
    headings = [
        "type",
        "size",
        "payload",
        "loss",
        "zeros",
        "calls",
        "backend",
        "p50",
        "p99",
        "algbw Mbit/s",
        "busbw",
        "of limit",
        "time/gloo",
        "CPU ns/B",
        "machine busy",
        "niced",
        "again",
    ]
    rows = []
    for row in run["rows"]:
        for name in backends:
            seconds = median(row, name)
            algorithm = row["bytes"] * 8 / seconds
            rows.append(
                [
                    row["type"],
                    format_bytes(row["bytes"]),
                    str(row["payload"] or "-"),
                    f"{row['loss']:.2%}",
                    f"{row.get('zeros', 0):.0%}",
                    str(row["calls"]),
                    name,
                    format_seconds(seconds),
                    format_seconds(quantile(row["seconds"][name], 0.99)),
                    format_rate(algorithm),
                    format_rate(algorithm * 2 * (run["ranks"] - 1) / run["ranks"]),
                    f"{row['limit_seconds'][name] / seconds:.3f}" if "limit_seconds" in row else "-",
                    f"{seconds / median(row, 'gloo'):.2f}" if "gloo" in backends else "-",
                    cpu_per_byte(run, row, name),
                    f"{row['machine'][name]['busy']:.0%}",
                    f"{row['machine'][name]['nice']:.0%}",
                    str(row["again"][name]),
                ]
            )
    print_columns(headings, rows)


# ---- what several programs read ----


class Key(typing.NamedTuple):
    """What a time belongs to."""

    ranks: int
    per_host: int
    rate: float  # Mbit/s; 0: one host, infinite: links without a limit
    no_switch: bool  # is named
    type: str
    payload: int
    loss: float
    zeros: float  # part of the blocks
    bytes: int
    backend: str


def link_rate(run):
    """Of a key. Only on a network there is an MTU."""
    return run.get("rate") or (math.inf if run.get("mtu") else 0)


def key(run, row, backend):
    """Files of older versions lack some of it."""
    return Key(
        run["ranks"],
        run.get("per_host") or 1,
        link_rate(run),
        bool(run.get("no_switch")),
        row.get("type") or "float32",
        row.get("payload") or 0,
        row.get("loss") or 0.0,
        row.get("zeros") or 0.0,
        row["bytes"],
        backend,
    )


KEY_HEADINGS = ["ranks", "per host", "Mbit/s", "switch", "type", "payload", "loss", "zeros", "size", "backend"]


def key_cells(key):
    rate = "no limit" if key.rate == math.inf else str(key.rate or "-")
    return [
        str(key.ranks),
        str(key.per_host),
        rate,
        "none" if key.no_switch else "-",
        key.type,
        str(key.payload or "-"),
        f"{key.loss:.2%}",
        f"{key.zeros:.0%}",
        format_bytes(key.bytes),
        key.backend,
    ]


def rows_of(path):
    """(run, row, backend) of everything in a file; the program ends if it is not one of benchmarks/allreduce."""
    try:
        content = json.loads(pathlib.Path(path).read_text())
        found = [(run, row, backend) for run in content["runs"] for row in run["rows"] for backend in row["seconds"]]
        for run, row, backend in found:
            key(run, row, backend), median(row, backend)
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        sys.exit(f"error: {path}: not a result of benchmarks/allreduce ({type(error).__name__}: {error})")
    if not found:
        sys.exit(f"error: {path}: no measurement in it")
    return found
