"""benchmarks/latency and what benchmarks/ddp shards."""

import json
import subprocess
import sys

import pytest
from benchmark_tools import BENCHMARKS, main_of

import repository


@pytest.mark.slow
def test_every_backend_and_size_is_timed_by_every_rank(tmp_path):
    out = tmp_path / "latency.json"
    command = [
        sys.executable,
        BENCHMARKS / "latency",
        "--ranks",
        2,
        "--sizes",
        "4K,64K",
        "--backends",
        "switchml,gloo",
        "--calls",
        20,
        "--rounds",
        2,
        "--json",
        out,
    ]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = json.loads(out.read_text())["runs"]
    assert run["ranks"] == 2 and [row["bytes"] for row in run["rows"]] == [4096, 65536]
    for row in run["rows"]:
        assert {name: len(times) for name, times in row["seconds"].items()} == {"switchml": 40, "gloo": 40}
        assert all(times == sorted(times) and times[0] > 0 for times in row["seconds"].values())


def test_open_mpi_that_is_not_there_is_named(monkeypatch, capsys):
    tool = main_of("latency")
    monkeypatch.setattr(tool.shutil, "which", lambda name: None)
    monkeypatch.setattr(tool.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["latency"])
    assert tool.parse().backends == ["switchml", "gloo"]
    assert "without Open MPI: mpirun and mpi4py not found" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["latency", "--backends", "openmpi"])
    with pytest.raises(SystemExit):
        tool.parse()


def test_blocks_are_neighbours_of_about_a_bucket(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(repository.ROOT / "benchmarks" / "ddp"))
    for name in ("sharded", "model"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import sharded

    tensors = [torch.zeros(count) for count in (5, 5, 11, 1, 2, 3)]
    blocks = sharded.blocks_of(tensors, 10)
    assert [[tensor.numel() for tensor in block] for block in blocks] == [[5, 5], [11], [1, 2, 3]]
