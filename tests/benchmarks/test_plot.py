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
    assert memory == {(2, 100 * MIB): 0.2}
    ((where, lines),) = tool.points([one_host(tmp_path / "one.json", (MIB, 100 * MIB))], memory).items()
    assert tool.title(*where) == "one host, float32, payload 131072 B"
    # 2 ranks: bus bytes are the tensor's; 4 ranks: half as many more, and no limit is known.
    assert lines["switchml", 2] == {MIB: (8 * MIB / 0.5, None), 100 * MIB: (800 * MIB / 0.5, 800 * MIB / 0.2)}
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
    ((_, lines),) = tool.points([file], {(2, 100 * MIB): 0.2}).items()
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
    found = tool.points([write(tmp_path / "all.json", {"runs": runs})], {(2, MIB): 0.2})
    assert [tool.title(*where) for where in found] == [
        "links of 100 Mbit/s, MTU 1500, float32, payload 1408 B",
        "links of 100 Mbit/s, MTU 1500, bfloat16, payload 1408 B",
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


def test_a_picture_with_and_without_limits(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    tool = main_of("plot")
    memory = write(
        tmp_path / "memory.json", {"mib": 100, "runs": [{"ranks": ranks, "seconds": [0.2]} for ranks in (2, 4)]}
    )
    for more in ([], ["--memory", str(memory)]):
        picture = tmp_path / f"{len(more)}.png"
        monkeypatch.setattr(
            "sys.argv", ["plot", str(one_host(tmp_path / "one.json", (MIB, 100 * MIB))), *more, "--png", str(picture)]
        )
        assert tool.main() == 0
        assert picture.read_bytes().startswith(b"\x89PNG")
