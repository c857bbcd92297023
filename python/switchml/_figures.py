"""What figures of bandwidth have in common: words and axes. benchmarks/ loads this file without the package, so it
imports matplotlib alone, and that only to draw."""


def format_bytes(count):
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:.4g} {unit}"
    return f"{count} B"


def bus_bytes(size, ranks):
    """What NCCL's tests divide by the time and call bus bandwidth: the bytes that a ring puts on each link."""
    return 2 * (ranks - 1) / ranks * size


def label_sizes(axes, sizes):
    """Bandwidth against size: both axes logarithmic, sizes as 4 KiB and 1 MiB, bandwidths as 0.5 and 20."""
    from matplotlib import ticker

    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [format_bytes(size) for size in sizes], rotation=30)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(ticker.NullLocator())
    axes.set_xlabel("size of the tensor")
