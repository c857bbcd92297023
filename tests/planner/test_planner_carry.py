"""Plans as a controller is given them."""

import pathlib
import sys
from concurrent import futures

import pytest
from loaded import ROOT, planner
from planner import carry, command

EXAMPLE = ROOT / "examples" / "planning"
TOPOLOGY, JOBS = EXAMPLE / "topology.yaml", EXAMPLE / "jobs.yaml"


def planned(topology=TOPOLOGY, jobs=JOBS):
    read = planner.read_topology(topology)
    return planner.plan(read, planner.read_jobs(jobs, read))


def test_the_shares_of_the_example():
    plan = planned()
    first, second = carry.shares_of(plan.topology, plan.assignments[0])
    assert (first["weight"], second["weight"]) == (3, 1)
    for share in (first, second):
        names = [switch["name"] for switch in share["switches"]]
        assert names[0] == "PS" and "parent" not in share["switches"][0]
        for switch in share["switches"][1:]:
            assert switch["parent"] in names[: names.index(switch["name"])], "parents come first"
        assert set(share["switch_of"]) == {f"W{i}" for i in range(1, 9)}
        assert set(share["switch_of"].values()) <= set(names)


def test_ports_are_those_of_both_ends_of_a_route(tmp_path):
    files = {"topology.yaml": PORTS, "jobs.yaml": "jobs:\n  - {name: j, workers: [a, b], root: top}\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    plan = planned(tmp_path / "topology.yaml", tmp_path / "jobs.yaml")
    (share,) = carry.shares_of(plan.topology, plan.assignments[0])
    assert share["switches"] == [
        {"name": "top"},
        {"name": "low", "parent": "top", "parent_port": 9, "port_at_parent": 4},
    ]
    assert share["switch_of"] == {"a": "low", "b": "low"}


#: Between the two aggregators is a switch that only forwards.
PORTS = """
switches:
  - {name: top, agent: 'h:1', address: 10.0.0.1}
  - {name: plain, aggregates: false}
  - {name: low, agent: 'h:2', address: 10.0.0.2}
workers:
  - {name: a, addresses: [10.0.1.1], switch: low, speed: 1G}
  - {name: b, addresses: [10.0.1.2], switch: low, speed: 1G}
links:
  - {ends: [plain, low], speed: 1G, ports: [3, 9]}
  - {ends: [plain, top], speed: 1G, ports: [2, 4]}
"""


class Controller:
    """Remembers plans and tokens; refuses the second job."""

    def __init__(self, grpc):
        self.grpc, self.plans, self.tokens = grpc, [], []

    def __getattr__(self, name):
        return lambda request, context: context.abort(self.grpc.StatusCode.UNIMPLEMENTED, name)

    def SetPlan(self, request, context):
        from switchml_agent import api

        self.plans.append(request)
        self.tokens.append(dict(context.invocation_metadata()).get("authorization"))
        if len(self.plans) > 1:
            context.abort(self.grpc.StatusCode.INVALID_ARGUMENT, "worker W1 is none of mine")
        return api.messages.SetPlanReply()


@pytest.fixture
def controller(monkeypatch):
    grpc = pytest.importorskip("grpc", reason="needs grpcio: pip install grpcio protobuf")
    pytest.importorskip("google.protobuf", reason="needs protobuf: pip install protobuf")
    monkeypatch.syspath_prepend(str(built()))
    from switchml_agent import api

    server = grpc.server(futures.ThreadPoolExecutor(1))
    service = Controller(grpc)
    server.add_generic_rpc_handlers([api.handler("Controller", service)])
    service.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    yield service
    server.stop(0)


def built():
    """Where the agent's package is, with its messages."""
    for folder in map(pathlib.Path, sys.path):
        if (folder / "switchml_agent" / "switchml_control.binpb").exists():
            return folder
    return pytest.skip("switchml_agent is not built")


def test_a_controller_gets_all_jobs_and_the_token(controller, tmp_path, capsys):
    (tmp_path / "token").write_text("my-token and more\n")
    arguments = [str(TOPOLOGY), "--jobs", str(JOBS), "--controller", controller.address]
    assert command.main([*arguments, "--token-file", str(tmp_path / "token")]) == 0
    assert f"controller {controller.address} opens sessions by this plan" in capsys.readouterr().out
    (plan,) = controller.plans
    assert controller.tokens == ["Bearer my-token"]
    assert list(plan.workers) == [f"W{i}" for i in range(1, 9)]
    assert [share.weight for share in plan.shares] == [3, 1]
    assert plan.shares[0].switches[0].name == "PS"
    assert dict(plan.shares[0].switch_of)["W1"] == "S1"
    assert command.main(arguments) == 2
    told = f'controller {controller.address}: job "training": worker W1 is none of mine'
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "message"),
    ((["--token-file", "x"], "--token-file goes with --controller"), (["--ca", "x"], "--ca goes with --controller")),
)
def test_what_goes_together(more, message, capsys):
    with pytest.raises(SystemExit) as ended:
        command.main([str(TOPOLOGY), "--jobs", str(JOBS), *more])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("text", (None, ""))
def test_a_token_file_without_a_token_is_named(text, tmp_path, capsys):
    path = tmp_path / "token"
    if text is not None:
        path.write_text(text)
    arguments = [str(TOPOLOGY), "--jobs", str(JOBS), "--controller", "127.0.0.1:1", "--token-file", str(path)]
    assert command.main(arguments) == 2
    assert f"--token-file {path}: " in capsys.readouterr().err
