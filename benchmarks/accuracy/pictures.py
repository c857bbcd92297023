"""accuracy.svg: the error against the number of workers; training.svg: the losses, and how far they are apart."""

import statistics

import drawing

COLOURS = {"1": "#08519c", "2": "#3182bd", "3": "#6baed6", "4": "#9ecae1", "ring": "#e6550d", "integer": "#31a354"}
STYLES = {"float32": "-", "float16": ":", "bfloat16": "--"}
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
    figure, axes = pyplot.subplots(2, len(networks), figsize=(5 * len(networks), 5.6), squeeze=False)
    for (above, below), network in zip(axes.T, networks):
        for row in (row for row in rows if row["network"] == network):
            at, losses = smooth(row["losses"])
            _, reference = smooth(training.reference_of(row, rows)["losses"])
            above.plot(at, losses, label=row["way"], linewidth=1, **style(row["way"]))
            apart = [loss - other for loss, other in zip(losses, reference)]
            below.plot(at, apart, label=row["way"], linewidth=1, **style(row["way"]))
        above.set_title(f"{network}, {rows[0]['workers']} workers", fontsize=8)
        above.set_ylabel(f"loss, mean of {SMOOTH} steps")
        below.set_ylabel("loss less that of float64 sums")
        below.set_yscale("symlog", linthresh=1e-4)
        below.set_xlabel("step")
        for each in (above, below):
            each.grid(alpha=0.3)
    axes[0][0].legend(fontsize=6, ncol=2)
    drawing.save(figure, content, path)


def draw(pyplot, content, folder):
    if content.get("sums"):
        draw_sums(pyplot, content, folder / "accuracy.svg")
    if content.get("training"):
        draw_training(pyplot, content, folder / "training.svg")
