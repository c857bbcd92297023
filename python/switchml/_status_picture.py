"""The last calls of a group, a bar for each on the line of each rank: how long it waited for the others, and how long
the call then took."""

WAITS, WORKS = "#d9a441", "#3f6fa3"


def bars(group, last):
    """[(rank, created, all had come, ended)] of the last collectives; None: not yet."""
    of_all = [(number, rank.collectives) for number, rank in sorted(group.ranks.items())]
    known = set.union(set(), *(set(calls) for _, calls in of_all))
    shown, found = sorted(known)[-last:], []
    for sequence in shown:
        there = [(number, calls[sequence]) for number, calls in of_all if sequence in calls]
        is_whole = len(there) == group.size
        came = max(call["created"] for _, call in there) if is_whole else None
        found += [(number, call["created"], came, call["ended"] or None) for number, call in there]
    return found


def _ends(group, found):
    """From when to when: until now, where a call has not ended."""
    now = max(rank.process.read_at - rank.ahead for rank in group.ranks.values())
    begin = min((created for _, created, _, _ in found), default=now)
    return begin, max((ended or now for _, _, _, ended in found), default=now)


def text(group, last, width=72):
    """A line for each rank: "." between calls, "-" where it waits for a rank that has not called yet, "#" where all are
    at work; a letter is what has most of its time."""
    found = bars(group, last)
    if not found:
        return ""
    begin, end = _ends(group, found)
    span = max(1, end - begin)
    parts = {number: [{"-": 0.0, "#": 0.0} for _ in range(width)] for number in sorted(group.ranks)}

    def paint(number, start, stop, letter):
        first, behind = ((moment - begin) / span * width for moment in (start, stop))
        for place in range(int(first), min(int(behind) + 1, width)):
            parts[number][place][letter] += max(0.0, min(behind, place + 1) - max(first, place))

    for number, created, came, ended in found:
        if came is not None:
            paint(number, came, ended or end, "#")
        if came != created:
            paint(number, created, end if came is None else came, "-")
    rows = [f"{number:>5} {''.join(map(_letter, line))}" for number, line in parts.items()]
    title = f"the last {span / 1e9:.3g} s: - waits for a rank that has not called, # all are in the call"
    return "\n".join([title, *rows])


def _letter(part):
    most = max(part, key=lambda letter: part[letter])
    return most if part[most] >= 0.5 or part["-"] + part["#"] > 0.5 else "."


def draw(group, last, file):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = bars(group, last)
    begin, end = _ends(group, found)
    figure, axes = pyplot.subplots(figsize=(10, 1.2 + 0.28 * group.size), layout="constrained")
    for colour, label, parts in (
        (WAITS, "waits for a rank that has not called", [(n, a, end if b is None else b) for n, a, b, _ in found]),
        (WORKS, "all ranks are in the call", [(n, b, end if c is None else c) for n, _, b, c in found if b]),
    ):
        lefts = [(start - begin) / 1e6 for _, start, _ in parts]
        widths = [max(0, stop - start) / 1e6 for _, start, stop in parts]
        axes.barh(
            [number for number, _, _ in parts],
            widths,
            left=lefts,
            height=0.7,
            color=colour,
            edgecolor=colour,
            linewidth=0.5,
            label=label,
        )
    axes.set_yticks(range(group.size))
    axes.invert_yaxis()
    axes.set_xlabel("ms")
    axes.set_ylabel("rank")
    axes.set_title(f"group {group.name}: its last calls", pad=26)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=2, frameon=False)
    figure.savefig(file)
