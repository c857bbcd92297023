"""Pictures that are checked in: they change only where their figures do."""

import sys

REPEATABLE = {"svg.hashsalt": "switchml", "svg.fonttype": "none", "font.size": 8}


def need_matplotlib():
    try:
        import matplotlib
    except ImportError as error:
        sys.exit(
            f"error: {error}: {sys.executable} -m pip install matplotlib, or for Debian's Python apt-get install python3-matplotlib"
        )
    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams.update(REPEATABLE)
    return pyplot


def source(content):
    """What was measured, and where."""
    machine = content.get("machine", {})
    return f"commit {content.get('commit')}, {machine.get('processor')}, {machine.get('cores')} cores"


def save(figure, content, path):
    figure.supxlabel(source(content), fontsize=6, color="grey")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    undated = {"Date": None, "Creator": None} if path.suffix == ".svg" else None
    figure.savefig(path, dpi=110, metadata=undated)
    print(f"written: {path}")
