"""Measured rates beside those of the model."""

import drawing

COLOURS = {"model": "#9ecae1", "measured": "#08519c"}


def draw(content, names, path):
    rows = content["rows"]
    pyplot = drawing.need_matplotlib()
    figure, axis = pyplot.subplots(figsize=(5.2, 2.6))
    for offset, (label, values) in enumerate(
        (("model", [row["model"] for row in rows]), ("measured", [row["rate"] for row in rows]))
    ):
        at = [place + (offset - 0.5) * 0.38 for place in range(len(rows))]
        bars = axis.bar(at, values, 0.36, color=COLOURS[label], label=label)
        axis.bar_label(bars, [f"{value:.2f}" for value in values], fontsize=7)
    axis.set_xticks(range(len(rows)), [names[row["way"]] for row in rows])
    axis.set_ylabel(f"rate in units of {content['unit']:g} Mbit/s")
    axis.set_ylim(0, 3.5)
    axis.legend(frameon=False, loc="upper left")
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    drawing.save(figure, content, path)
