"""Pictures that are checked in are small."""

import re

import pytest
from benchmark_tools import ROOT  # makes the next one known

import drawing  # isort: skip

FIGURES = sorted((ROOT / "docs" / "figures").glob("*.svg"))
NESTED = f"""<svg xmlns="{drawing.SVG}"><metadata/>
 <g id="a">
  <g clip-path="url(#c)"><path d="M 0 0
L 1 1
"/></g>
  <text>two words</text>
 </g>
</svg>"""


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: path.name)
def test_a_figure_is_compact(path):
    text = path.read_text()
    assert drawing.compact(text) == text, f"benchmarks/common/drawing.py {path.name}"
    points = (len(re.findall("[MLCQ]", drawn)) for drawn in re.findall(r' d="([^"]*)"', text))
    assert max(points) <= drawing.MOST_POINTS


def test_compact_keeps_what_is_drawn():
    path, text = '<g clip-path="url(#c)"><path d="M 0 0 L 1 1"/></g>', "<text>two words</text>"
    assert drawing.compact(NESTED) == f'<svg xmlns="{drawing.SVG}">\n{path}\n{text}\n</svg>\n'


def test_a_long_line_is_thinned():
    pytest.importorskip("matplotlib")
    figure, axes = drawing.need_matplotlib().subplots()
    (line,) = axes.plot(range(1000), range(1000))
    drawing.thin(figure)
    assert len(line.get_xdata()) == drawing.MOST_POINTS
    assert (line.get_xdata()[0], line.get_xdata()[-1]) == (0, 999)
