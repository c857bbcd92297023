"""Draws what benchmarks/allreduce measured: bus bandwidth against size, and against the number of ranks at the largest
size that all have.

    python benchmarks/plot out/network.json [more.json ...] --out out/network.png
    python benchmarks/plot out/one-host.json --memory out/memory.json --against size --out out/size.svg

There is a picture for each network, type, payload and loss; of one host one for each type. Dotted: what links allow at
best, and on one host, with --memory, two passes over memory, by threads that do nothing else. Bus bandwidth is that of
NCCL's tests, 2 (n-1)/n bytes over the time: what a ring's links carry. A switch needs less of its links for the same.
"""

import argparse
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import drawing
import limits
import options
import report
from _figures import label_sizes

COLOURS = {
    "switchml": ("#08519c", "#3182bd", "#6baed6", "#9ecae1"),
    "gloo": ("#a63603", "#e6550d", "#fd8d3c", "#fdbe85"),
}
MARKERS = "osD^v<>p"


def memory_limits(path):
    """{ranks: seconds for a byte} of what bench_memory measured, with tensors that no cache holds."""
    if path is None:
        return {}
    try:
        content = json.loads(path.read_text())
        size = content["mib"] << 20
        return {run["ranks"]: statistics.median(run["seconds"]) / size for run in content["runs"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"error: --memory {path}: not a result of bench_memory ({type(error).__name__}: {error})")


def points(paths, memory):
    """{(report.Key with ranks 1, bytes 0 and no backend, MTU): {(backend, ranks): {size: (bus bits/s, limit in bus
    bits/s or None)}}}"""
    found = {}
    for path in paths:
        for run, row, backend in report.rows_of(path):
            per_second = 8 * limits.bus_bytes(row["bytes"], run["ranks"])
            limit = row.get("limit_seconds", {}).get(backend)
            key = report.key(run, row, backend)
            if not key.rate:
                limit = memory.get(key.ranks, 0) * key.bytes
            lines = found.setdefault((key._replace(ranks=1, bytes=0, backend=""), run.get("mtu") or 0), {})
            lines.setdefault((backend, key.ranks), {})[key.bytes] = (
                per_second / report.median(row, backend),
                per_second / limit if limit else None,
            )
    return {where: dict(sorted(lines.items(), key=order)) for where, lines in found.items()}


def order(line):
    (backend, ranks), _ = line
    return options.BACKENDS.index(backend), ranks


def title(key, mtu):
    where = f"{report.links(key.rate)}, MTU {mtu}" if key.rate else "one host"
    return ", ".join(
        [
            where,
            *([f"{key.per_host} ranks per host"] if key.per_host > 1 else []),
            *(["no switch named" if key.no_switch else "a switch"] if key.rate else []),
            key.type,
            *([f"payload {key.payload} B"] if key.payload else []),
            *([f"{key.loss:.2%} lost"] if key.loss else []),
        ]
    )


def draw(axes, lines, unit):
    """lines: {label: (colour, marker, {x: (measured, limit)})}. A limit of several lines, as memory is, is grey."""
    limits_of = {
        label: {at: limit / unit for at, (_, limit) in sorted(values.items()) if limit}
        for label, (_, _, values) in lines.items()
    }
    every = list(limits_of.values())
    for label, (colour, marker, values) in lines.items():
        x, limited = sorted(values), limits_of[label]
        axes.plot(x, [values[at][0] / unit for at in x], color=colour, marker=marker, markersize=4, label=label)
        shade = "grey" if every.count(limited) > 1 else colour
        marker = "_" if len(limited) == 1 else ""
        axes.plot(list(limited), list(limited.values()), color=shade, linestyle=":", marker=marker)
    if any(every):
        axes.plot([], [], color="grey", linestyle=":", label="limit of links or memory")
    axes.grid(alpha=0.3)
    axes.legend()


def colour(backend, place):
    return COLOURS[backend][min(place, len(COLOURS[backend]) - 1)]


def against_size(axes, lines, unit):
    shown = {which: values for which, values in lines.items() if len(values) > 1} or lines
    ranks = sorted({count for _, count in shown})
    drawn = {}
    for (backend, count), values in shown.items():
        place = ranks.index(count)
        drawn[f"{backend}, {count} ranks"] = (colour(backend, place), MARKERS[place % len(MARKERS)], values)
    draw(axes, drawn, unit)
    label_sizes(axes, sorted(set().union(*shown.values())))


def against_ranks(axes, lines, unit):
    """At the largest size that all have."""
    common = set.intersection(*(set(values) for values in lines.values()))
    if not common:
        axes.set_xlabel("ranks (no size that all have)")
        return
    largest = max(common)
    drawn = {}
    for (backend, count), values in lines.items():
        drawn.setdefault(backend, (colour(backend, 0), "o", {}))[2][count] = values[largest]
    draw(axes, drawn, unit)
    axes.set_xscale("log", base=2)
    ranks = sorted({count for _, count in lines})
    axes.set_xticks(ranks, map(str, ranks))
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"ranks (each with {report.format_bytes(largest)})")


AGAINST = {"size": against_size, "ranks": against_ranks}


def draw_panel(axes, where, lines, against):
    highest = max(value for values in lines.values() for pair in values.values() for value in pair if value)
    name, unit = ("Gbit/s", 1e9) if highest >= 1e9 else ("Mbit/s", 1e6)
    AGAINST[against](axes, lines, unit)
    axes.set_ylabel(f"bus bandwidth ({name})")
    axes.set_title(title(*where), fontsize=9)


def main():
    parser = argparse.ArgumentParser(
        prog="benchmarks/plot", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", nargs="+", type=pathlib.Path, help="JSON files of benchmarks/allreduce")
    parser.add_argument("--memory", type=pathlib.Path, help="JSON file of bench_memory: the limit of one host")
    parser.add_argument("--against", choices=AGAINST, help="default: both, one beside the other")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the picture to write, .png or .svg")
    arguments = parser.parse_args()
    if arguments.out.suffix not in (".png", ".svg"):
        parser.error(f"--out {arguments.out} is not allowed: use a name that ends in .png or .svg")
    found = points(arguments.results, memory_limits(arguments.memory))
    pyplot = drawing.need_matplotlib()
    panels = [
        (where, lines, against)
        for where, lines in found.items()
        for against in ([arguments.against] if arguments.against else AGAINST)
    ]
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(5.5 * columns, 3.8 * rows), squeeze=False)
    for place, panel in zip(axes.flat, panels):
        draw_panel(place, *panel)
    for place in axes.flat[len(panels) :]:
        place.axis("off")
    drawing.save(figure, json.loads(arguments.results[0].read_text()), arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
