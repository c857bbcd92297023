"""What the pictures of benchmarks/plot are drawn from: the figures are made up, and pictures are not looked at."""

import json

import pytest
from benchmark_tools import main_of

MIB = 1 << 20


def write(path, content):
    path.write_text(json.dumps(content))
    return path


def one_host(path, sizes):
    rows = [
        {"bytes": size, "payload": 131072, "loss": 0.0, "seconds": {"switchml": [0.5], "gloo": [1.0]}} for size in sizes
    ]
    return write(path, {"runs": [{"ranks": ranks, "per_host": 1, "rate": None, "rows": rows} for ranks in (2, 4)]})


def test_memory_is_the_limit_of_one_host(tmp_path):
    tool = main_of("plot")
    memory = tool.memory_limits(
        write(tmp_path / "memory.json", {"mib": 100, "runs": [{"ranks": 2, "seconds": [0.3, 0.1, 0.2]}]})
    )
    assert memory == {2: 0.2 / (100 * MIB)}
    ((where, lines),) = tool.points([one_host(tmp_path / "one.json", (MIB, 100 * MIB))], memory).items()
    assert tool.title(*where) == "one host, float32, payload 131072 B"
    # 2 ranks: bus bytes are the tensor's; 4 ranks: half as many more, and no limit is known.
    allowed = pytest.approx(800 * MIB / 0.2)
    assert lines["switchml", 2] == {MIB: (8 * MIB / 0.5, allowed), 100 * MIB: (800 * MIB / 0.5, allowed)}
    assert lines["gloo", 4] == {MIB: (12 * MIB / 1.0, None), 100 * MIB: (1200 * MIB / 1.0, None)}


def test_links_have_limits_of_their_own(tmp_path):
    tool = main_of("plot")
    row = {
        "bytes": 100 * MIB,
        "payload": 1024,
        "loss": 0.0,
        "seconds": {"switchml": [10.0]},
        "limit_seconds": {"switchml": 8.0},
    }
    file = write(
        tmp_path / "network.json", {"runs": [{"ranks": 2, "per_host": 1, "rate": 100, "mtu": 1500, "rows": [row]}]}
    )
    ((_, lines),) = tool.points([file], {2: 1e-9}).items()
    assert lines == {("switchml", 2): {100 * MIB: (80 * MIB, 100 * MIB)}}


def test_networks_and_types_have_pictures_of_their_own(tmp_path):
    tool = main_of("plot")
    rows = [
        {"bytes": MIB, "payload": 1408, "loss": 0.0, "type": kind, "seconds": {"switchml": [1.0]}}
        for kind in ("float32", "bfloat16")
    ]
    runs = [
        {"ranks": 2, "per_host": 1, "rate": rate, "mtu": 1500, "no_switch": none, "rows": rows}
        for rate, none in ((100, False), (0, True))
    ]
    found = tool.points([write(tmp_path / "all.json", {"runs": runs})], {2: 1e-9})
    assert [tool.title(*where) for where in found] == [
        "links of 100 Mbit/s, MTU 1500, a switch, float32, payload 1408 B",
        "links of 100 Mbit/s, MTU 1500, a switch, bfloat16, payload 1408 B",
        "links without a limit, MTU 1500, no switch named, float32, payload 1408 B",
        "links without a limit, MTU 1500, no switch named, bfloat16, payload 1408 B",
    ]
    assert {tuple(lines["switchml", 2].items()) for lines in found.values()} == {
        ((MIB, (8 * MIB, None)),)
    }  # memory is no limit of links


def test_what_is_no_measurement_of_memory_is_named(tmp_path):
    tool = main_of("plot")
    for content in ({"runs": []}, [], {"mib": 1, "runs": [{}]}):
        with pytest.raises(SystemExit, match=r"--memory .*memory\.json: not a result of bench_memory"):
            tool.memory_limits(write(tmp_path / "memory.json", content))
    assert tool.memory_limits(None) == {}


def drawn(tool, monkeypatch, picture, *arguments):
    monkeypatch.setattr("sys.argv", ["plot", *map(str, arguments), "--out", str(picture)])
    assert tool.main() == 0
    return picture.read_bytes()


def memory_of(folder):
    runs = [{"ranks": ranks, "seconds": [0.2]} for ranks in (2, 4)]
    return write(folder / "memory.json", {"mib": 100, "runs": runs})


def test_a_picture_with_and_without_limits(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    tool, results = main_of("plot"), one_host(tmp_path / "one.json", (MIB, 100 * MIB))
    for more in ([], ["--memory", memory_of(tmp_path)]):
        assert drawn(tool, monkeypatch, tmp_path / "picture.png", results, *more).startswith(b"\x89PNG")


def test_a_picture_that_is_checked_in_changes_with_its_figures_alone(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    tool, results = main_of("plot"), one_host(tmp_path / "one.json", (4096, MIB, 64 * MIB))
    arguments = (results, "--memory", memory_of(tmp_path))
    for against, labels in (("size", (b">4 KiB<", b">1 MiB<")), ("ranks", (b"ranks (each with 64 MiB)",))):
        once, again = (drawn(tool, monkeypatch, tmp_path / name, *arguments, "--against", against)
                       for name in ("a.svg", "b.svg"))  # fmt: skip
        assert once == again and len(once) < 60000
        assert all(label in once for label in (*labels, b"gloo", b"limit of links or memory"))


def test_a_line_against_size_has_more_than_one(tmp_path, monkeypatch):
    """Files that add numbers of ranks at one size are for the other figure."""
    pytest.importorskip("matplotlib")
    tool, results = main_of("plot"), one_host(tmp_path / "one.json", (MIB, 64 * MIB))
    rows = [{"bytes": MIB, "payload": 131072, "loss": 0.0, "seconds": {"switchml": [0.5], "gloo": [1.0]}}]
    more = write(tmp_path / "more.json", {"runs": [{"ranks": 8, "per_host": 1, "rate": None, "rows": rows}]})
    picture = drawn(tool, monkeypatch, tmp_path / "a.svg", results, more, "--against", "size")
    assert b"gloo, 4 ranks" in picture and b"gloo, 8 ranks" not in picture
    assert b"each with 1 MiB" in drawn(tool, monkeypatch, tmp_path / "b.svg", results, more, "--against", "ranks")
