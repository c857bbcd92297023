"""Figures and tables of the all-reduce benchmark; used by benchmarks/compare too."""


def quantile(ordered, q):
    """Nearest-rank quantile of a sorted list."""
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def format_bytes(count):
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:.4g} {unit}"
    return f"{count} B"


def format_seconds(seconds):
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} us"
    if seconds < 1:
        return f"{seconds * 1e3:.2f} ms"
    return f"{seconds:.3f} s"


def print_run(run, backends):
    """The table of one number of ranks."""
    headings = ["size", "calls"]
    for name in backends:
        headings += [f"{name} p50", "p99"]
    if len(backends) > 1:
        headings.append("ratio")
    rows = []
    for row in run["rows"]:
        cells = [format_bytes(row["bytes"]), str(row["calls"])]
        for name in backends:
            cells += [format_seconds(quantile(row["seconds"][name], q)) for q in (0.5, 0.99)]
        if len(backends) > 1:
            first, second = (quantile(row["seconds"][name], 0.5) for name in backends[:2])
            cells.append(f"{first / second:.2f}")
        rows.append(cells)
    print(f"\nall-reduce, float32 SUM, {run['ranks']} ranks, torch {run['torch']}")
    print_columns(headings, rows)
    memory = [row["memory"] for row in run["rows"]]
    print(f"memory of the heaviest rank after the smallest and the largest size: switchml "
          f"{format_bytes(int(memory[0]['switchml_bytes']))} and {format_bytes(int(memory[-1]['switchml_bytes']))}; "
          f"process growth {format_bytes(int(memory[0]['process_growth_bytes']))} and "
          f"{format_bytes(int(memory[-1]['process_growth_bytes']))}\n", flush=True)


def print_columns(headings, rows):
    widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]
    for row in [headings, *rows]:
        print("  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths)))
