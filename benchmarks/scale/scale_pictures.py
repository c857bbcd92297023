"""scale.svg: the time of an all-reduce by way, against the number of workers, and against losses."""

import drawing
import scale_runs

COLOURS = {"tree": "#08519c", "ring": "#e6550d", "leaders": "#fd8d3c", "shares": "#31a354"}


def curves(axes, rows, x_of):
    from matplotlib import ticker

    for way, label in scale_runs.WAYS.items():
        ours = sorted((x_of(row), max(row["seconds"]) * 1e3) for row in rows if row["way"] == way)
        if ours:
            axes.plot(*zip(*ours), marker="o", markersize=3, label=label, color=COLOURS[way])
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(ticker.LogFormatter())  # 20, not 2 x 10^1
    axes.yaxis.set_minor_formatter(ticker.LogFormatter(labelOnlyBase=False, minor_thresholds=(2, 0.4)))
    axes.set_ylabel("ms")
    axes.grid(alpha=0.3)


def draw_sizes(axes, rows):
    curves(axes, rows, lambda row: row["workers"])
    axes.axhline(rows[0]["bound"] * 1e3, color="grey", linestyle=":", label="a link carries the tensor once")
    workers = sorted({row["workers"] for row in rows})
    axes.set_xscale("log", base=2)
    axes.set_xticks(workers, map(str, workers))
    axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    axes.set_xlabel("workers")
    axes.set_title(f"{rows[0]['options']['kib'] // 1024} MiB, 100 Gb/s, without loss", fontsize=8)
    axes.legend(fontsize=6)


def draw_losses(axes, rows, workers):
    curves(axes, rows, lambda row: row["options"].get("loss", 0) * 100)
    losses = sorted({row["options"].get("loss", 0) * 100 for row in rows})
    axes.set_xscale("symlog", linthresh=0.005)
    axes.set_xticks(losses, [f"{loss:g}" for loss in losses])
    axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    axes.set_xlabel("frames lost on each link, %")
    axes.set_title(f"{workers} workers", fontsize=8)


def draw(pyplot, content, folder):
    runs = content["runs"]
    sizes = [row for row in runs if row["part"] == "sizes"]
    losses = [row for row in runs if row["part"] == "loss"]
    lossy = sorted({row["workers"] for row in losses})
    panels = (len(sizes) > 0) + len(lossy)
    if panels == 0:
        return
    rows = (panels + 1) // 2  # two panels are as wide as a page
    figure, axes = pyplot.subplots(rows, min(2, panels), figsize=(3.6 * min(2, panels), 3 * rows), squeeze=False)
    figure.suptitle("simulated, in virtual time", fontsize=9)
    places = list(axes.flat)
    for unused in places[panels:]:
        unused.axis("off")
    if sizes:
        draw_sizes(places.pop(0), sizes)
    for place, workers in zip(places, lossy):
        draw_losses(place, [row for row in sizes + losses if row["workers"] == workers], workers)
    drawing.save(figure, content, folder / "scale.svg")
