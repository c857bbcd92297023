"""Switches of their own process that have a key: ranks with the same one use them, and all others are told."""

import secrets

import harness
import lab
import pytest
import reducing_rank
import torch
import torch.distributed as dist
from controlled import MISSING
from failing import check_all, doomed_pool, open_on_each, rank_warm_up, standalone_switch, with_switch
from harness import free_port

pytestmark = pytest.mark.skipif(harness.BACKEND == "gloo", reason="Gloo has no switch")


def key_file(folder, name):
    path = folder / name
    path.touch(mode=0o600)
    path.write_text(secrets.token_hex(32) + "\n")
    return str(path)


def with_key(file, **more):
    return {"SWITCHML_ENCRYPTION": "on", "SWITCHML_SWITCH_KEY_FILE": file, **more}


def rank_sum():
    """A sum that is right, and the session."""
    import switchml

    rank_warm_up()
    total = torch.arange(100_000, dtype=torch.float32)
    dist.all_reduce(total)
    assert torch.equal(total, dist.get_world_size() * torch.arange(100_000, dtype=torch.float32))
    return switchml.stats()["session"]


@pytest.mark.parametrize("transport", ("udp", "tcp"))
def test_ranks_with_its_key_use_a_switch(tmp_path, transport):
    key, port = key_file(tmp_path, "key"), free_port()
    with standalone_switch(port, "--key-file", key):
        environment = with_key(key, SWITCHML_TRANSPORT=transport, **with_switch(f"127.0.0.1:{port}"))
        with doomed_pool(2, environment=environment) as own:
            for session in own.run(rank_sum):
                assert (session["encryption"], session["transport"]) == ("on", transport), session
            own.close()


@pytest.mark.parametrize("switch, ranks", (("one", "other"), ("one", None), (None, "one")))
def test_all_ranks_are_told_that_keys_differ(tmp_path, switch, ranks):
    files = {name: key_file(tmp_path, name) for name in ("one", "other")}
    port = free_port()
    with standalone_switch(port, *(["--key-file", files[switch]] if switch else [])):
        environment = {"SWITCHML_SWITCH": f"127.0.0.1:{port}", "SWITCHML_TRANSPORT": "udp"}
        environment |= with_key(files[ranks]) if ranks else {}
        environment["SWITCHML_CONNECT_TIMEOUT"] = "3"
        told = open_on_each(tmp_path, 2, [environment] * 2)
    check_all(told, "--key-file")
    check_all(told, "SWITCHML_SWITCH_KEY_FILE")


@pytest.mark.skipif(bool(MISSING or lab.missing()), reason=MISSING or lab.missing())
def test_a_tree_of_switches_with_a_key(tmp_path):
    """Ranks and leaves, leaves and the root: each takes nothing that is not sealed."""
    pytest.importorskip("grpc", reason="needs grpcio: pip install grpcio protobuf")
    from test_controller import Tree

    key, exact = key_file(tmp_path, "key"), {"SWITCHML_PRECISION": "auto", "SWITCHML_TRANSPORT": "auto"}
    with Tree(tmp_path, switch_options=("--key-file", key)) as network:
        got = network.reduce("sealed", **with_key(key, **exact))
        of_hosts = network.reduce("hosts", SWITCHML_CONTROLLER="", **exact)
        counters = [line for line in network.state().splitlines() if line.startswith("counters of")]
    assert {rank["stats"]["session"]["encryption"] for rank in got} == {"on"}
    reducing_rank.assert_same(got, of_hosts)
    assert len(counters) == 3 and not any("dropped_plain" in line or "dropped_forged" in line for line in counters)
