"""What the demo says of the way that the gradients took, for each way that there is, and of the time."""

import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def demo():
    spec = importlib.util.spec_from_file_location("fashion_mnist_demo", ROOT / "examples/fashion_mnist/demo.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def result(backend, milliseconds, session=None):
    return {"backend": backend, "seconds": [one / 1000 for one in milliseconds], "session": session}


@pytest.mark.parametrize("transport, switch, said", (
    ("shm", "", ("switchml in memory: ", "no packet")),
    ("udp", "127.0.0.1:9 (embedded in rank 0 of default)", ("a software switch: ", "by UDP", "embedded in rank 0")),
    ("shm+udp", "192.0.2.1:4800", ("memory", "by UDP", "192.0.2.1:4800")),
    ("", "", ("alone",)),
))  # fmt: skip
def test_the_path_is_told(demo, capsys, transport, switch, said):
    session = {"transport": transport, "switch": switch}
    demo.print_path([result("switchml", [8, 10, 30], session), result("gloo", [13.5, 13.5, 1])])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and lines[0].startswith("switchml")
    for text in said:
        assert text in lines[0]
    assert "1.35 x faster than over Gloo" in lines[1]


@pytest.mark.parametrize("option, value, allowed", (
    ("backends", "switchml,nccl", "switchml, switch, gloo"),
    ("backends", "", "switchml, switch, gloo"),
    ("backends", "gloo,gloo", "each once"),
    ("epochs", "0", "1 or more"),
    ("seed", "-1", "0 to"),
    ("tolerance", "nan", "0 points or more"),
    ("tolerance", "inf", "0 points or more"),
    ("tolerance", "-0.1", "0 points or more"),
    ("ranks", "3", "256"),
    ("images", "1", "256 to 60000"),
    ("plot", "/", "names of files"),
))  # fmt: skip
def test_what_is_not_allowed_is_refused(demo, capsys, option, value, allowed):
    with pytest.raises(SystemExit) as refused:
        demo.parse([f"--{option}={value}"])
    said = capsys.readouterr().err
    assert refused.value.code == 2 and f"--{option} {value}" in said and allowed in said


def test_who_is_slower_is_told_so(demo):
    assert "1.50 x slower than over Gloo" in demo.gain(result("switchml", [15]), result("gloo", [10]))
