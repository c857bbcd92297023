"""benchmarks/serving, without the engines that only .venv-clients has."""

import json
import subprocess
import sys

import pytest
from benchmark_tools import BENCHMARKS, main_of

OURS = "switchml,arena,alone,gloo"


@pytest.mark.slow
def test_every_call_is_timed_in_two_ways(tmp_path):
    out = tmp_path / "serving.json"
    options = ["--ranks", 2, "--sizes", "64,64K", "--gaps", "0,100", "--calls", 20, "--rounds", 2, "--json", out]
    command = [
        sys.executable,
        BENCHMARKS / "serving",
        "--backends",
        f"{OURS},in_place",
        "--peers-python",
        sys.executable,
        *options,
    ]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = json.loads(out.read_text())["runs"]
    cells = [(row["type"], row["bytes"], row["gap"]) for row in run["rows"]]
    assert cells == [(kind, size, gap) for kind in ("bfloat16", "float32") for size in (64, 65536) for gap in (0, 100)]
    for row in run["rows"]:
        for times, number in ((row["seconds"], 2 * 20), (row["after_last"], 20)):
            assert {name: len(each) for name, each in times.items()} == dict.fromkeys(
                [*OURS.split(","), "in_place"], number
            )


def test_engines_that_are_not_there_are_named(monkeypatch, capsys):
    tool = main_of("serving")
    monkeypatch.setattr(tool.shutil, "which", lambda name: None)
    monkeypatch.setattr(tool, "NEEDS", {"vllm": "no_such_module", "openmpi": "json"})
    monkeypatch.setattr(sys, "argv", ["serving", "--peers-python", sys.executable])
    arguments = tool.parse()
    assert arguments.backends == [*OURS.split(","), "deepspeed"]
    assert arguments.absent == {
        "vllm": f"{sys.executable} has no no_such_module",
        "openmpi": f"{sys.executable} has no mpirun",
    }
    for more in (["--backends", "vllm"], ["--tokens", "8", "--engines", "vllm"]):
        monkeypatch.setattr(sys, "argv", ["serving", "--peers-python", sys.executable, *more])
        with pytest.raises(SystemExit):
            tool.parse()
        assert "has no no_such_module" in capsys.readouterr().err
