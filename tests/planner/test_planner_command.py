"""switchml-plan: what it prints and writes, and what it says of mistakes."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from loaded import ROOT, planner
from planner import command, draw
from planner.layout import places

EXAMPLE = ROOT / "examples" / "planning"
FILES = [str(EXAMPLE / "topology.yaml"), "--jobs", str(EXAMPLE / "jobs.yaml")]


def run(capsys, *arguments):
    status = command.main([*FILES, *map(str, arguments)])
    written = capsys.readouterr()
    return status, written.out, written.err


def test_the_table_has_rates_trees_and_loads(capsys):
    status, out, _ = run(capsys)
    assert status == 0
    assert out.startswith("planned: the least rate is 3G; no plan can have more than 3G\n")
    for line in (
        "job training: 3G",
        "    S3 sends to PS, the root",
        "    W1, W2, W3, W4 send to S1",
        "  S1-S2     3G/3G   100 %",
        "  PS  4.5G/9G    50 %",
    ):
        assert line in out.splitlines()


def test_all_ways_beside_each_other(capsys):
    _, out, _ = run(capsys, "--compare")
    assert out.splitlines()[-1].split() == ["training", "1G", "2.438G", "3G", "1.714G"]


def test_json_has_all_that_a_program_needs_and_is_read_again(capsys, tmp_path):
    path = tmp_path / "plan.json"
    assert run(capsys, "--json", path)[0] == 0
    content = json.loads(path.read_text())
    assert (content["format"], content["version"], content["way"]) == ("switchml-plan", 1, "planned")
    (job,) = content["jobs"]
    assert sum(share["fraction"] for share in job["shares"]) == pytest.approx(1)
    edges = {edge["child"]: edge for edge in job["shares"][0]["edges"]}
    assert edges["W1"] == {"child": "W1", "parent": "S1", "route": ["W1", "S1"]}
    (link,) = [link for link in content["links"] if link["ends"] == ["S1", "S3"]]
    assert link["capacity"] == [3e9, 3e9] and link["load"] == pytest.approx([2.25e9, 2.25e9])
    topology = planner.read_topology(EXAMPLE / "topology.yaml")
    read = planner.read_plan(path, topology)
    assert read.assignments == planner.plan(topology, read.jobs).assignments


def test_what_holds_is_kept(capsys, tmp_path):
    path = tmp_path / "plan.json"
    run(capsys, "--json", path)
    status, out, _ = run(capsys, "--keep", path)
    assert status == 0 and out.splitlines()[-1] == f"kept from {path}: 2 of 2 shares"
    status, out, _ = run(capsys, "--keep", path, "--failed", "S2-S1")
    assert status == 0 and out.splitlines()[-1].startswith(f"kept from {path}: 1 of ")


def test_failures_and_jobs_without_a_plan(capsys):
    status, out, _ = run(capsys, "--failed", "S1")
    assert status == 0 and "job training: no plan: worker W1 has no route to root PS" in out


def test_a_job_without_a_plan_is_a_warning():
    topology = planner.read_topology(EXAMPLE / "topology.yaml")
    jobs = planner.read_jobs(EXAMPLE / "jobs.yaml", topology)
    first = planner.plan(topology, jobs)
    left = topology.without("S2", ("S1", "S3"))
    for planned_again in (lambda: planner.plan(left, jobs), lambda: planner.replan(first, left, jobs)):
        with pytest.warns(planner.PlanWarning, match='job "training" has no plan: worker W1 has no route') as told:
            assert planned_again().shares() == []
        assert told[0].filename == __file__


def test_pictures_are_the_same_every_time(capsys, tmp_path):
    texts = []
    for name in ("one.svg", "two.svg"):
        assert run(capsys, "--compare", "--svg", tmp_path / name)[0] == 0
        texts.append((tmp_path / name).read_text())
    assert texts[0] == texts[1]
    for label in (">2.25/3<", ">PS, root<", "planned: 3 Gbit/s"):
        assert label in texts[0]


RACKS = """
switches:
  - {name: tor1, parent: spine, parent_port: 1, ports: {1: 10G, 2: 10G, 3: 10G}}
  - {name: tor2, parent: spine, parent_port: 2, ports: {1: 10G, 2: 10G, 3: 10G}}
  - {name: spine, aggregates: true}
workers:
  - {name: w1, switch: tor1, speed: 10G}
  - {name: w2, switch: tor1, speed: 10G}
  - {name: w3, switch: tor2, speed: 10G}
  - {name: w4, switch: tor2, speed: 10G}
"""


@pytest.mark.parametrize("way", ("none", "nearest", "planned"))
def test_the_root_is_on_top_of_its_own_picture_and_arrows_lead_there(way, tmp_path):
    (tmp_path / "t.yaml").write_text(RACKS)
    topology = planner.read_topology(tmp_path / "t.yaml")
    plan = planner.plan(topology, [planner.Job("job", ("w1", "w2", "w3", "w4"))], way)
    (share,) = plan.shares()
    place = places(topology, draw._top(plan), list(topology.nodes))
    assert [name for name in place if place[name][1] == 0] == [share.tree.root]
    flows, _ = draw._flows(plan)
    assert flows and all(place[end][1] > place[start][1] for start, end in flows), "each arrow leads upwards"


def test_large_topologies_have_no_picture(capsys, tmp_path):
    lines = ["switches:", "  - {name: top}"]
    lines += [f"  - {{name: s{number}, parent: top, parent_port: 1, ports: {{1: 1G}}}}" for number in range(120)]
    lines += ["workers:", *(f"  - {{name: w{number}, switch: s{number}, speed: 1G}}" for number in (0, 1))]
    topology, jobs = tmp_path / "t.yaml", tmp_path / "j.yaml"
    topology.write_text("\n".join(lines))
    jobs.write_text("jobs: [{name: job, workers: [w0, w1]}]")
    status = command.main([str(topology), "--jobs", str(jobs), "--svg", str(tmp_path / "p.svg")])
    assert status == 2 and "a picture of 121 switches: allowed are 120 or fewer" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--failed", "S9"], "--failed S9: is no switch, worker or link (A-B) of the topology"),
        (["--failed", "S1-PS"], "--failed S1-PS: is no switch"),
        (["--keep", "/none.json"], "/none.json: cannot be read: No such file"),
        (["--json", "/none/plan.json"], "/none/plan.json: cannot be written: No such file"),
        (["--svg", "/none/plan.svg"], "/none/plan.svg: cannot be written: No such file"),
        (["--keep", str(EXAMPLE / "jobs.yaml")], "jobs.yaml:1: is not JSON"),
    ],
)
def test_mistakes_are_named_and_the_status_is_2(capsys, arguments, message):
    status, _, err = run(capsys, *arguments)
    assert status == 2 and err.startswith("switchml-plan: ") and message in err


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--shares", "0"], "0 is not allowed: use 1 to 64, or all"),
        (["--routes", "long"], "long is not allowed: use any, shortest, or 1 to 64"),
        (["--seed", "-1"], "-1 is not allowed: use 0 to 4294967295"),
        (["--svg", "plan.png"], "plan.png is not allowed: use a name that ends in .svg"),
        (["--keep", "p.json", "--way", "none"], "--keep goes with --way planned, not with none"),
    ],
)
def test_mistakes_on_the_command_line(capsys, arguments, message):
    with pytest.raises(SystemExit) as ended:
        run(capsys, *arguments)
    assert ended.value.code == 2 and message in capsys.readouterr().err


@pytest.mark.parametrize(
    "text, message",
    [
        ("{}", 'format and version (None, None): allowed are "switchml-plan" and 1'),
        ('{"format": "switchml-plan", "version": 1}', "is no plan: KeyError: 'jobs'"),
        ('{"format": "switchml-plan", "version": 1, "jobs": [3]}', "is no plan: TypeError"),
    ],
)
def test_plans_that_are_none(tmp_path, text, message):
    path = pathlib.Path(tmp_path / "plan.json")
    path.write_text(text)
    with pytest.raises(planner.PlanError, match="plan.json: ") as caught:
        planner.read_plan(path, planner.Topology([], []))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "edges, message",
    [
        ([], "leaves of a tree of job j are not its workers"),
        ([["a", "s"]], "leaves of a tree"),
        ([["a", "s"], ["b"]], "route ['b'] of b"),
        ([["a", "s"], ["b", "t"]], "b does not lead to the root s"),
        ([["a", "s"], ["b", "t"], ["t", "u"], ["u", "t"]], "b does not lead to the root s"),
    ],
)
def test_trees_that_are_none(tmp_path, edges, message):
    share = {"rate": 1, "root": "s", "edges": [{"child": route[0], "route": route} for route in edges]}
    job = {
        "name": "j",
        "workers": ["a", "b"],
        "weight": 1,
        "root": None,
        "limit": None,
        "reason": "",
        "shares": [share],
    }
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"format": "switchml-plan", "version": 1, "way": "planned", "bound": 1, "jobs": [job]}))
    with pytest.raises(planner.PlanError) as caught:
        planner.read_plan(path, planner.Topology([], []))
    assert message in str(caught.value)


PROGRAM = "import sys; sys.modules['torch'] = None; import _switchml_entry; sys.exit(_switchml_entry.plan())"


def start(arguments, **streams):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    return subprocess.run([sys.executable, "-c", PROGRAM, *arguments], env=environment, timeout=300, **streams)


def test_the_console_script_needs_no_pytorch():
    found = start(FILES, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("planned: the least rate is 3G")
    found = start([FILES[0], "--jobs", "/none.yaml"], capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (
        2,
        "switchml-plan: /none.yaml: cannot be read: No such file or directory\n",
    )


def test_a_full_disk_is_one_line():
    with open("/dev/full", "w") as full:
        found = start(FILES, stdout=full, stderr=subprocess.PIPE, text=True)
    assert found.returncode == 1
    assert found.stderr == "switchml-plan: the output cannot be written: No space left on device\n"


def test_a_closed_pipe_is_no_error():
    reading, writing = os.pipe()
    os.close(reading)
    found = start(FILES, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (found.returncode, found.stderr) == (141, "")


def test_the_options_are_documented(capsys):
    with pytest.raises(SystemExit):
        command.main(["--help"])
    told = set(re.findall(r"^  (--[a-z]+)", capsys.readouterr().out, re.MULTILINE))
    page = (ROOT / "docs" / "planning.md").read_text()
    assert told == set(re.findall(r"^\| `(--[a-z]+)", page, re.MULTILINE)) and "--jobs" in told
