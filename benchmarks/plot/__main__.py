"""Draws what benchmarks/allreduce measured: bus bandwidth against size, and against the number of ranks at the largest
size.

    python benchmarks/plot out/network.json [more.json ...] --png out/network.png

A row of the picture for each network, type, payload and loss (for this host each type); dotted: what the links allow at
best, and on one host, with --memory, what memory allows threads that do nothing but read a tensor and write a result of
that size. Bus bandwidth is that of NCCL's tests, 2 (n-1)/n bytes over the time: what a ring's links carry. A switch
needs less of its links for the same.
"""

import argparse
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
import limits
import report

COLOURS = {
    "switchml": ("#08519c", "#3182bd", "#6baed6", "#9ecae1"),
    "gloo": ("#a63603", "#e6550d", "#fd8d3c", "#fdbe85"),
}
MARKERS = "osD^v<>p"


def need_matplotlib():
    try:
        import matplotlib
    except ImportError as error:
        sys.exit(
            f"error: {error}: {sys.executable} -m pip install matplotlib, or for Debian's Python apt-get install python3-matplotlib"
        )
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def memory_limits(path):
    """{(ranks, size): seconds} of what bench_memory measured."""
    if path is None:
        return {}
    try:
        content = json.loads(path.read_text())
        size = content["mib"] << 20
        return {(run["ranks"], size): statistics.median(run["seconds"]) for run in content["runs"]}
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
                limit = memory.get((key.ranks, key.bytes))
            lines = found.setdefault((key._replace(ranks=1, bytes=0, backend=""), run.get("mtu") or 0), {})
            lines.setdefault((backend, key.ranks), {})[key.bytes] = (
                per_second / report.median(row, backend),
                limit and per_second / limit,
            )
    return found


def title(key, mtu):
    where = f"{report.links(key.rate)}, MTU {mtu}" if key.rate else "one host"
    return ", ".join(
        [
            where,
            *([f"{key.per_host} ranks per host"] if key.per_host > 1 else []),
            *(["no switch named"] if key.no_switch else []),
            key.type,
            *([f"payload {key.payload} B"] if key.payload else []),
            *([f"{key.loss:.2%} lost"] if key.loss else []),
        ]
    )


def draw(axes, lines, unit, what):
    """lines: {label: (colour, marker, {x: (measured, limit)})}"""
    for label, (colour, marker, values) in lines.items():
        x = sorted(values)
        axes.plot(x, [values[at][0] / unit for at in x], color=colour, marker=marker, markersize=4, label=label)
        limited = [at for at in x if values[at][1]]
        axes.plot(
            limited,
            [values[at][1] / unit for at in limited],
            color=colour,
            linestyle=":",
            marker="_" if len(limited) == 1 else "",
        )
    pairs = [pair for _, _, values in lines.values() for pair in values.values()]
    if any(limit for _, limit in pairs):
        axes.plot([], [], color="grey", linestyle=":", label="limit of links or memory")
    axes.set_xlabel(what)
    axes.set_ylim(0, 1.08 * max(value for pair in pairs for value in pair if value) / unit if pairs else 1)
    axes.grid(alpha=0.3)
    if pairs:
        axes.legend(fontsize=7)


def colour(backend, place):
    return COLOURS[backend][min(place, len(COLOURS[backend]) - 1)]


def draw_row(left, right, heading, lines):
    """Against size on the left, against ranks at the largest size that all have on the right."""
    ranks = sorted({count for _, count in lines})
    highest = max(value for values in lines.values() for pair in values.values() for value in pair if value)
    name, unit = ("Gbit/s", 1e9) if highest >= 1e9 else ("Mbit/s", 1e6)
    draw(
        left,
        {
            f"{backend}, {count} ranks": (
                colour(backend, ranks.index(count)),
                MARKERS[ranks.index(count) % len(MARKERS)],
                values,
            )
            for (backend, count), values in sorted(lines.items())
        },
        unit,
        "size of the tensor (bytes)",
    )
    left.set_xscale("log", base=2)
    common = set.intersection(*(set(values) for values in lines.values()))
    largest = max(common) if common else None
    workers = {
        backend: (
            colour(backend, 0),
            "o",
            {count: values[largest] for (own, count), values in lines.items() if own == backend},
        )
        for backend in COLOURS
        if largest and any(own == backend for own, _ in lines)
    }
    draw(
        right,
        workers,
        unit,
        f"ranks (each with {report.format_bytes(largest)})" if largest else "ranks (no size that all have)",
    )
    right.set_xticks(ranks)
    for axes in (left, right):
        axes.set_ylabel(f"bus bandwidth ({name})")
        axes.set_title(heading, fontsize=9)


def main():
    parser = argparse.ArgumentParser(
        prog="benchmarks/plot", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", nargs="+", type=pathlib.Path, help="JSON files of benchmarks/allreduce")
    parser.add_argument("--memory", type=pathlib.Path, help="JSON file of bench_memory: the limit of one host")
    parser.add_argument("--png", type=pathlib.Path, required=True, help="the picture to write")
    arguments = parser.parse_args()
    if arguments.png.suffix != ".png":
        parser.error(f"--png {arguments.png} is not allowed: use a name that ends in .png")
    found = points(arguments.results, memory_limits(arguments.memory))
    pyplot = need_matplotlib()
    figure, axes = pyplot.subplots(len(found), 2, figsize=(13, 4.2 * len(found)), squeeze=False)
    for pair, (where, lines) in zip(axes, found.items()):
        draw_row(*pair, title(*where), lines)
    figure.tight_layout()
    arguments.png.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(arguments.png, dpi=110)
    print(f"written: {arguments.png}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
