"""python -m switchml: info, doctor and bench, alone and under torchrun."""

import ast
import json
import os
import pathlib
import re
import subprocess
import sys

import harness
import pytest
import switchml

PATIENCE = 300


def command(*arguments, launcher=(), **environment):
    made = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run([sys.executable, *launcher, "-m", "switchml", *map(str, arguments)], capture_output=True, text=True,
                          timeout=PATIENCE, env=made)  # fmt: skip


def on_two_ranks():
    return ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")


def test_info_has_versions_and_settings_in_force():
    done = command("info", "--json", SWITCHML_PAYLOAD="1024", SWITCHML_CONTROLLER_TOKEN="open-sesame-of-the-team")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    settings = {row["variable"]: row for row in found["settings"]}
    assert settings["SWITCHML_PAYLOAD"]["value"] == "1024" and settings["SWITCHML_PAYLOAD"]["from"] == "environment"
    assert settings["SWITCHML_SLOTS"]["from"] == "default"
    assert "sesame" not in done.stdout and found["kernels"] and found["torch"]
    text = command("info").stdout
    assert "kernels" in text and "SWITCHML_SLOTS" in text


def test_a_command_that_there_is_not_is_refused():
    done = command("repair")
    assert done.returncode == 2 and "info, doctor, bench" in done.stderr.replace("'", "")


def test_doctor_of_this_host():
    done = command("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ranks of this host can share memory" in done.stdout and "FAIL" not in done.stdout


def test_doctor_names_a_bad_setting_and_a_remedy():
    done = command("doctor", SWITCHML_SLOTS="many")
    assert done.returncode == 1 and "FAIL" in done.stdout and "SWITCHML_SLOTS" in done.stdout and "-> " in done.stdout


@pytest.mark.skipif(harness.TORCH < (2, 0), reason="this torchrun has no -m with --standalone here")
def test_doctor_of_a_job_lets_its_ranks_add():
    done = command("doctor", launcher=on_two_ranks())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 ranks" in done.stdout and done.stdout.count("a group of all ranks adds") == 2


@pytest.mark.skipif(harness.TORCH < (2, 0), reason="this torchrun has no -m with --standalone here")
def test_bench_has_a_row_for_each_size(tmp_path):
    picture = tmp_path / "bench.png"
    done = command("bench", "--ranks", 2, "--seconds", 1, "--png", picture)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line for line in done.stdout.splitlines() if " KiB " in line or " MiB " in line]
    assert len(rows) == 6 and picture.exists()
    assert command("bench", "--ranks", 1).returncode == 1


def stub_of(module):
    return ast.parse((pathlib.Path(switchml.__file__).parent / f"{module}.pyi").read_text())


def test_the_stub_has_every_setting():
    stub = stub_of("__init__")
    init = next(node for node in ast.walk(stub) if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    assert [argument.arg for argument in init.args.kwonlyargs] == [setting["name"] for setting in switchml.settings()]


def parameters_of(function):
    """Their names, from the first line that pybind11 writes; self is left out."""
    return [name for name in re.findall(r"[(,] ?(\w+):", function.__doc__.splitlines()[0]) if name != "self"]


def compare_functions(nodes, owner):
    for node in nodes:
        if isinstance(node, ast.FunctionDef) and not node.decorator_list and not node.name.startswith("__"):
            names = [argument.arg for argument in node.args.args if argument.arg != "self"]
            assert names == parameters_of(getattr(owner, node.name)), node.name


def test_the_stub_of_the_compiled_module_is_what_it_has():
    from switchml import _C

    nodes = [node for node in stub_of("_C").body if not isinstance(node, ast.ImportFrom)]
    names = {node.target.id if isinstance(node, ast.AnnAssign) else node.name for node in nodes}
    assert names == {name for name in vars(_C) if not name.startswith("__")}
    compare_functions(nodes, _C)
    (group,) = (node for node in nodes if isinstance(node, ast.ClassDef))
    own = {
        name for name in vars(_C.ProcessGroupSwitchML) if not name.startswith("_") or name == "_add_ephemeral_timeout"
    }
    described = {node.name: node for node in group.body}
    assert own <= set(described)
    assert set(described) - own <= set(dir(_C.ProcessGroupSwitchML)) | {"get_error"}  # of later versions of PyTorch
    compare_functions([described[name] for name in own], _C.ProcessGroupSwitchML)


def test_former_names_of_counters_are_found_with_a_warning():
    from switchml import _registration

    counters = _registration._Stats({"calls_gloo": 3})
    with pytest.warns(DeprecationWarning, match="'calls_companion' is 'calls_gloo' now"):
        assert counters["calls_companion"] == 3
    with pytest.warns(DeprecationWarning, match="'calls_companion' is 'calls_gloo' now"):
        assert counters.get("calls_companion") == 3
    for name in ("calls_bridge", "companion"):  # never was one, and is not in this one
        assert counters.get(name) is None
        with pytest.raises(KeyError):
            counters[name]
