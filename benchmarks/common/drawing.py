"""Pictures that are checked in: they change only where their figures do, and are small.

Usage: drawing.py FILE.svg...   (makes small what another program has drawn)
"""

import pathlib
import re
import sys
import xml.etree.ElementTree as xml

REPEATABLE = {"svg.hashsalt": "switchml", "svg.fonttype": "none", "font.size": 8}
MOST_POINTS = 300  # of a line
SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"


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


def thin(figure):
    """Leaves out points of lines that have more than a reader sees; the first and the last one stay."""
    for line in (line for axes in figure.axes for line in axes.lines if len(line.get_xdata()) > MOST_POINTS):
        last = len(line.get_xdata()) - 1
        kept = [round(last * i / (MOST_POINTS - 1)) for i in range(MOST_POINTS)]
        line.set_data(*(list(map(list(values).__getitem__, kept)) for values in line.get_data()))


def flattened(element):
    """The element without groups that say nothing but a name."""
    for child in list(element):
        flattened(child)
    children = []
    for child in element:
        children += list(child) if child.tag == f"{{{SVG}}}g" and not set(child.attrib) - {"id"} else [child]
    element[:] = children
    return element


def compact(text):
    """The same picture, an element a line."""
    for prefix, name in (("", SVG), ("xlink", XLINK)):
        xml.register_namespace(prefix, name)
    root = flattened(xml.fromstring(text))
    for element in root.iter():
        element.attrib = {name: " ".join(value.split()) for name, value in element.attrib.items()}
        if not (element.text or "").strip():
            element.text = None
        if not (element.tail or "").strip():
            element.tail = None
    for metadata in root.findall(f"{{{SVG}}}metadata"):
        root.remove(metadata)
    for element in (root, *root):
        element.tail = "\n"
    root.text = "\n"
    return re.sub(r" />", "/>", xml.tostring(root, encoding="unicode"))


def save(figure, content, path):
    figure.supxlabel(source(content), fontsize=6, color="grey")
    figure.tight_layout()
    thin(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    is_svg = path.suffix == ".svg"
    figure.savefig(path, dpi=110, metadata={"Date": None, "Creator": None} if is_svg else None)
    if is_svg:
        path.write_text(compact(path.read_text()))
    print(f"written: {path}")


if __name__ == "__main__":
    for each in map(pathlib.Path, sys.argv[1:]):
        each.write_text(compact(each.read_text()))
