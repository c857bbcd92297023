"""python -m switchml: info, doctor and bench, alone and under torchrun."""

import ast
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys

import harness
import pytest
import switchml
import torch.distributed as dist
from switchml import __main__, _bench_calls, _doctor

PATIENCE = 300


def command(*arguments, launcher=(), stdout=subprocess.PIPE, cwd=None, **environment):
    made = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run([sys.executable, *launcher, "-m", "switchml", *map(str, arguments)], stdout=stdout, text=True,
                          stderr=subprocess.PIPE, timeout=PATIENCE, env=made, cwd=cwd)  # fmt: skip


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


def test_info_has_the_log_level_of_pytorch():
    def row(**environment):
        settings = json.loads(command("info", "--json", **environment).stdout)["settings"]
        return next((each["value"], each["from"]) for each in settings if each["variable"] == "SWITCHML_LOG_LEVEL")

    assert row(TORCH_CPP_LOG_LEVEL="FATAL") == ("off", "TORCH_CPP_LOG_LEVEL")
    assert row(TORCH_CPP_LOG_LEVEL="ERROR", SWITCHML_LOG_LEVEL="info") == ("info", "environment")


def test_info_marks_a_bad_setting():
    done = command("info", SWITCHML_SLOTS="99999")
    assert done.returncode == 1 and done.stderr == ""
    (line,) = (line for line in done.stdout.splitlines() if "WRONG" in line)
    assert line.startswith("SWITCHML_SLOTS ") and "4 to 4096" in line and switchml.__version__ in done.stdout
    done = command("info", "--json", SWITCHML_SLOTS="99999")
    assert done.returncode == 1 and "SWITCHML_SLOTS" in json.loads(done.stdout)["wrong"]


def test_a_command_that_there_is_not_is_refused():
    done = command("repair")
    assert done.returncode == 2 and "info, doctor, bench" in done.stderr.replace("'", "")


def test_doctor_of_this_host():
    done = command("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ranks of this host can share memory" in done.stdout and "FAIL" not in done.stdout


@pytest.mark.parametrize("name, value", (("SWITCHML_SLOTS", "many"), ("SWITCHML_SWITCH", "127.0.0.1:99999")))
def test_doctor_names_a_bad_setting_and_a_remedy(name, value):
    done = command("doctor", **{name: value})
    assert done.returncode == 1 and done.stdout.count("FAIL") == 1
    assert f'{name}="{value}"' in done.stdout and "-> correct the variable" in done.stdout


READ = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}


@pytest.mark.parametrize("what, name", [("doctor", "LOCAL_WORLD_SIZE"), *itertools.product(("doctor", "bench"), READ)])
def test_a_launchers_bad_variable_is_named(monkeypatch, what, name):
    value = "" if name == "MASTER_ADDR" else "x"
    for variable, text in {**READ, "LOCAL_WORLD_SIZE": "2", name: value}.items():
        monkeypatch.setenv(variable, text)
    with pytest.raises(SystemExit, match=f"error: {name}='{value}' is not allowed"):
        __main__.main([what])


def test_doctor_of_one_asks_the_switch():
    done = command("doctor", SWITCHML_SWITCH="127.0.0.1:9")
    assert done.returncode == 1 and done.stdout.count("FAIL") == 1, done.stdout + done.stderr
    assert "127.0.0.1:9 does not answer" in done.stdout and "-> correct SWITCHML_SWITCH" in done.stdout


@pytest.mark.parametrize("value", ("nan", "0", "-3", "1e9"))
def test_doctor_refuses_a_timeout(capsys, value):
    with pytest.raises(SystemExit) as refused:
        __main__.parse(["doctor", "--timeout", value])
    assert refused.value.code == 2 and repr(value) in capsys.readouterr().err


class Stalling(dist.HashStore):
    """What this rank says goes out; nothing comes."""

    def wait(self, keys, *patience):
        raise RuntimeError("Connection timed out\nframe #0: of C++")


@pytest.mark.parametrize("rank, told", ((0, "2 ranks"), (1, "FAIL  rank 0")))
def test_doctor_prints_its_findings_if_no_others_come(capsys, monkeypatch, rank, told):
    for name, value in {"RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 1}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr(dist, "TCPStore", lambda *_: Stalling())
    monkeypatch.setattr(dist, "PrefixStore", lambda _, store: store)
    monkeypatch.setattr(_doctor, "of_all_hosts", lambda _: [_doctor.finding(_doctor.OK, "what else was found")])
    assert __main__.main(["doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(told) and f"ok    rank {rank}: what else was found" in lines
    other = f"FAIL  rank {1 - rank}: the findings of rank {1 - rank} did not come: Connection timed out"
    assert other in lines and "MTU" in lines[lines.index(other) + 1]


def test_doctor_goes_on_where_the_store_fails(monkeypatch):
    class Silent:
        def share(self, topic, value):
            raise RuntimeError("Connection timed out")

    (found,) = _doctor.of_all_hosts(Silent())
    assert found["level"] == _doctor.FAIL and "Connection timed out" in found["what"]


@pytest.mark.skipif(harness.TORCH < (2, 0), reason="this torchrun has no -m with --standalone here")
def test_doctor_of_a_job_lets_its_ranks_add():
    done = command("doctor", launcher=on_two_ranks())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 ranks" in done.stdout and done.stdout.count("a group of all ranks adds") == 2


@pytest.mark.skipif(harness.TORCH < (2, 0), reason="this torchrun has no -m with --standalone here")
def test_bench_has_a_row_for_each_size(tmp_path):
    picture = tmp_path / "bench.png"
    options = ("-b", "1K", "-e", "64K", "-f", 8, "-n", 2, "-w", 1, "-d", "half", "-o", "max", "--png", picture)
    done = command("bench", "--ranks", 2, *options, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    sizes = [("1024", "512"), ("8192", "4096"), ("65536", "32768")]
    assert [row[:6] for row in rows] == [["all_reduce", *size, "half", "max", "-1"] for size in sizes]
    assert done.stdout.endswith("# wrong elements: 0\n") and "busbw" in done.stdout
    assert done.stderr.startswith("# starting 2 ranks\n") and list(tmp_path.iterdir()) == [picture]


@pytest.mark.skipif(harness.TORCH < (2, 0), reason="this torchrun has no -m with --standalone here")
def test_bench_of_every_collective_for_programs(tmp_path):
    done = command("bench", "all", "--ranks", 2, "-b", 64, "-e", 64, "-n", 1, "-w", 1, "-r", 1, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["ranks"] == 2 and found["wrong"] == 0 and not list(tmp_path.iterdir())
    assert [row["collective"] for row in found["rows"]] == list(_bench_calls.COLLECTIVES)
    for row in found["rows"]:
        assert row["size"] == 64 and row["root"] in (None, 1) and row["redop"] in (None, "sum")
        ours = row["switchml"]
        assert ours["algbw"] == pytest.approx(64 / ours["time_us"] / 1e3) and ours["wrong"] == 0
        half = row["collective"] in ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")
        assert ours["busbw"] == pytest.approx(ours["algbw"] * (0.5 if half else 1))


def rank_makes_calls_of_every_kind():
    """What is wrong in the results, and in results that are spoilt."""
    group, right, spoilt = dist.distributed_c10d._get_default_group(), {}, {}
    kinds = [(name, "float", "sum") for name in _bench_calls.COLLECTIVES]
    kinds += [("all_reduce", dtype, op) for dtype in _bench_calls.TYPES for op in _bench_calls.OPERATIONS]
    for kind in kinds:
        name, dtype, op = kind
        call = _bench_calls.Call(name, 3 * 8 * 1500, _bench_calls.TYPES[dtype], op, 1)
        call.prepare()
        call.make(group)
        right[kind] = call.wrong()
        call.output[-1] += 1
        spoilt[kind] = call.wrong()
    return right, spoilt


def test_bench_knows_what_must_come_out():
    for rank, (right, spoilt) in enumerate(harness.pool(3).run(rank_makes_calls_of_every_kind)):
        assert set(right.values()) == {0}, right
        nothing = {kind for kind, wrong in spoilt.items() if wrong != 1}
        assert nothing == (set() if rank == 1 else {("reduce", "float", "sum"), ("gather", "float", "sum")})


@pytest.mark.parametrize("options, said", (
    (("-b", "2M", "-e", "1M"), "-b 2097152 is above -e 1048576"),
    (("-r", "2"), "-r/--root: 2 is not allowed: ranks are 0 to 1"),
))  # fmt: skip
def test_bench_refuses_options_that_do_not_go_together(options, said):
    done = command("bench", "--ranks", 2, *options)
    assert done.returncode == 2 and said in done.stderr and done.stdout == ""


@pytest.mark.parametrize("option, values, allowed", (
    ("--ranks", ("1", "129", "2.5", "many"), "2 to 128"),
    ("-b", ("0", "-1", "1.5", "K", "1T", "65G", "long"), "64K, 32M or 1G"),
    ("-f", ("1", "0", "2.5"), "a whole number from 2 on"),
    ("-w", ("0", "few"), "a whole number from 1 on"),
    ("-o", ("band", ""), "one of sum, avg, prod, max, min, all"),
    ("-d", ("uint32", "float32"), "one of float, double, half"),
    ("--png", ("/", "/no/such/folder/bench.png", "/proc/bench.png", "/dev/null/bench.png"), "can be written"),
))  # fmt: skip
def test_bench_refuses_before_it_measures(capsys, monkeypatch, option, values, allowed):
    monkeypatch.delenv("RANK", raising=False)
    for value in values:
        with pytest.raises(SystemExit) as refused:
            __main__.parse(["bench", option, value])
        said = capsys.readouterr().err
        assert refused.value.code == 2 and option in said and repr(value) in said and allowed in said


def test_a_picture_is_tried_out_and_leaves_nothing(tmp_path):
    path = tmp_path / "bench"  # no suffix: the name is as it is given
    assert __main__.parse(["bench", "--png", str(path)]).png == str(path) and not path.exists()


@pytest.mark.parametrize("name, value", (("SLOTS", "99999"), ("SWITCH", "127.0.0.1:99999")))
def test_bench_says_what_is_wrong_with_a_setting_and_nothing_else(name, value):
    done = command("bench", **{f"SWITCHML_{name}": value})
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert f"SWITCHML_{name}" in done.stderr and value in done.stderr


def test_a_closed_pipe_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        for name in ("info", "doctor"):
            done = command(name, stdout=pipe)
            assert done.returncode == 141 and done.stderr == ""


@pytest.mark.parametrize("arguments", (("info",), ("doctor",), ("--help",)))
def test_a_full_disk_is_one_line(arguments):
    with open("/dev/full", "wb") as full:
        done = command(*arguments, stdout=full)
    assert done.returncode == 1 and done.stderr == "error: the output cannot be written: No space left on device\n"


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
            arguments = node.args.args + node.args.kwonlyargs
            names = [argument.arg for argument in arguments if argument.arg != "self"]
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
    later = {"allocate_tensor", "get_error"}  # of later versions of PyTorch
    assert set(described) - own <= set(dir(_C.ProcessGroupSwitchML)) | later
    compare_functions([described[name] for name in own], _C.ProcessGroupSwitchML)


def test_former_names_of_counters_are_found_with_a_warning():
    from switchml import _registration

    counters = _registration._Stats({"nonfinite_superblocks": 3})
    with pytest.warns(DeprecationWarning, match="'nonfinite_groups' is 'nonfinite_superblocks' now"):
        assert counters["nonfinite_groups"] == 3
    with pytest.warns(DeprecationWarning, match="'nonfinite_groups' is 'nonfinite_superblocks' now"):
        assert counters.get("nonfinite_groups") == 3
    for name in ("calls_bridge", "calls_gloo"):  # never was one, and is gone
        assert counters.get(name) is None
        with pytest.raises(KeyError):
            counters[name]
