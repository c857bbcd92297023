"""accuracy.svg: the error against the number of workers; training.svg: the losses, and how far they end apart;
narrow.svg: the losses with narrow gradients."""

import statistics

import drawing

COLOURS = {"1": "#08519c", "2": "#3182bd", "3": "#6baed6", "4": "#9ecae1", "ring": "#e6550d", "integer": "#31a354"}
STYLES = {"float32": "-", "float16": ":", "bfloat16": "--"}
NARROW = {"float32": "black", "bf16": "#3182bd", "fp8": "#e6550d", "int8": "#31a354"}
SMOOTH = 20  # steps that a point of a curve is the mean of
EVERY = 5  # steps between its points


def label(way):
    return f"{way} level{'s' * (way != '1')}" if way.isdigit() else {"integer": "integer switch"}.get(way, way)


def draw_errors(axes, rows):
    for way in rows[0]["ways"]:
        axes.plot(
            [row["workers"] for row in rows],
            [row["ways"][way]["l2"] for row in rows],
            linestyle="--" if way == "integer" else "-",
            label=label(way),
            color=COLOURS.get(way, "grey"),
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    workers = [row["workers"] for row in rows]
    axes.set_xticks(workers, map(str, workers))
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.set_title(f"{rows[0]['type']}, {rows[0]['distribution']}", fontsize=8)


def draw_sums(pyplot, content, path):
    rows = content["sums"]
    types = list(dict.fromkeys(row["type"] for row in rows))
    kinds = list(dict.fromkeys(row["distribution"] for row in rows))
    size = (3.4 * len(types), 2.3 * len(kinds))
    figure, axes = pyplot.subplots(len(kinds), len(types), figsize=size, sharex=True, sharey="col", squeeze=False)
    for i, kind in enumerate(kinds):
        for j, element in enumerate(types):
            draw_errors(axes[i][j], [row for row in rows if (row["type"], row["distribution"]) == (element, kind)])
        axes[i][0].set_ylabel("relative L2 error")
    for last in axes[-1]:
        last.set_xlabel("workers")
    axes[0][0].legend(fontsize=6)
    drawing.save(figure, content, path)


def smooth(losses):
    places = range(min(SMOOTH, len(losses)) - 1, len(losses), EVERY)
    return list(places), [statistics.fmean(losses[max(0, i - SMOOTH + 1) : i + 1]) for i in places]


def style(way):
    """Of a curve, by its name in training.ways()."""
    kind, _, level = way.partition(", ")
    if kind in STYLES:
        return {"color": COLOURS.get(level[:1], "grey"), "linestyle": STYLES[kind]}
    return {"color": COLOURS["integer"]} if kind == "integer switch" else {"color": "black" if not level else "grey"}


def draw_training(pyplot, content, path):
    import training

    rows = content["training"]
    networks = list(dict.fromkeys(row["network"] for row in rows))
    figure, axes = pyplot.subplots(2, len(networks), figsize=(5 * len(networks), 6), squeeze=False)
    for (above, below), network in zip(axes.T, networks):
        of_network = [row for row in rows if row["network"] == network]
        for row in of_network:
            above.plot(*smooth(row["losses"]), label=row["way"], linewidth=1, **style(row["way"]))
        above.set_title(f"{network}, {rows[0]['workers']} workers", fontsize=8)
        above.set_xlabel("step")
        above.set_ylabel(f"loss, mean of {SMOOTH} steps")
        above.grid(alpha=0.3)
        compared = [row for row in of_network if row is not training.reference_of(row, rows)]
        apart = [abs(training.last(row["losses"]) - training.last(training.reference_of(row, rows)["losses"]))
                 for row in compared]  # fmt: skip
        colours = [style(row["way"])["color"] for row in compared]
        bars = below.barh([row["way"] for row in compared], apart, height=0.6, color=colours)
        below.bar_label(bars, [f"{distance:.0e}" if distance else "none" for distance in apart], fontsize=6, padding=2)
        below.invert_yaxis()
        below.set_xscale("log")
        below.margins(x=0.12)
        below.tick_params(axis="y", labelsize=7)
        below.set_xlabel("distance from the loss of float64 sums, mean of the last 50 steps")
        below.grid(alpha=0.3, axis="x")
    axes[0][0].legend(fontsize=6, ncol=2)
    drawing.save(figure, content, path)


def draw_narrow(pyplot, content, path):
    rows = content["narrow"]
    networks, ways = (list(dict.fromkeys(row[name] for row in rows)) for name in ("network", "way"))
    figure, axes = pyplot.subplots(2, len(networks), figsize=(5 * len(networks), 6), squeeze=False)
    for (above, below), network in zip(axes.T, networks):
        for row in (row for row in rows if row["network"] == network):
            first = row["seed"] == rows[0]["seed"]
            above.plot(
                *smooth(row["losses"]), label=row["way"] if first else None, linewidth=0.8, color=NARROW[row["way"]]
            )
            below.plot([row["end"]], [row["way"]], "o" if first else ".", color=NARROW[row["way"]])
        of_float32 = [row["end"] for row in rows if (row["network"], row["way"]) == (network, ways[0])]
        below.axvspan(min(of_float32), max(of_float32), alpha=0.15)
        above.set_title(f"{network}, {rows[0]['workers']} workers, {len(of_float32)} seeds", fontsize=8)
        above.set_xlabel("step")
        above.set_ylabel(f"loss, mean of {SMOOTH} steps")
        above.grid(alpha=0.3)
        below.invert_yaxis()
        below.set_xlabel("mean loss of the last 50 steps, a point a seed; shaded: between float32's")
        below.grid(alpha=0.3, axis="x")
    axes[0][0].legend(fontsize=6)
    drawing.save(figure, content, path)


def draw(pyplot, content, folder):
    if content.get("sums"):
        draw_sums(pyplot, content, folder / "accuracy.svg")
    if content.get("training"):
        draw_training(pyplot, content, folder / "training.svg")
    if content.get("narrow"):
        draw_narrow(pyplot, content, folder / "narrow.svg")
