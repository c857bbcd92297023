"""SWITCHML_ENCRYPTION: what ranks compute is the same with it, and who goes without is told."""

import ctypes
import hashlib
import os

import harness
import lab
import pytest
import torch
import torch.distributed as dist

RANKS = 3
ROUGH = "seed=3,send_loss=0.01,receive_loss=0.01,duplicate=0.05,delay=0.05,corrupt=0.01"


def bytes_of(tensors):
    return b"".join(tensor.contiguous().view(torch.uint8).numpy().tobytes() for tensor in tensors)


def uneven(count, dtype=torch.float32):
    generator = torch.Generator().manual_seed(dist.get_rank() + 1)
    return (torch.randn(count, generator=generator) * 100).to(dtype)


def every_collective():
    """What each of them gives this rank, as a hash, and whether its session says that it encrypts."""
    import switchml

    rank, size, results = dist.get_rank(), dist.get_world_size(), []
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        for count in (1, 1000, 100_003):
            for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX):
                results.append(uneven(count, dtype))
                dist.all_reduce(results[-1], op)
    part = torch.zeros(4096)
    dist.reduce_scatter_tensor(part, uneven(4096 * size))
    whole = torch.zeros(4096 * size)
    dist.all_gather_into_tensor(whole, uneven(4096))
    sent = uneven(5000) if rank == 1 else torch.zeros(5000)
    dist.broadcast(sent, 1)
    exchanged = torch.zeros(300 * size)
    dist.all_to_all_single(exchanged, uneven(300 * size))
    gathered = [torch.zeros(50) for _ in range(size)] if rank == 0 else None
    dist.gather(uneven(50), gathered, 0)
    passed = torch.zeros(7000)
    requests = [dist.isend(uneven(7000), (rank + 1) % size), dist.irecv(passed, (rank - 1) % size)]
    for request in requests:
        request.wait()
    dist.barrier()
    results += [part, whole, sent, exchanged, passed, *(gathered or [])]
    return hashlib.sha256(bytes_of(results)).hexdigest(), switchml.stats()["session"]["encryption"]


@pytest.mark.parametrize("faults", ("", ROUGH), ids=("quiet", "faults"))
@pytest.mark.parametrize("transport", ("udp", "tcp"))
def test_results_have_the_same_bits(transport, faults):
    said = {}
    for encryption in ("on", "off"):
        environment = {"SWITCHML_ENCRYPTION": encryption, "SWITCHML_TRANSPORT": transport}
        environment["SWITCHML_FAULTS"] = faults if encryption == "on" else ""
        with harness.fresh_pool(RANKS, environment=environment, with_gloo=False) as own:
            said[encryption] = own.run(every_collective)
            own.close()
    assert [way for _, way in said["on"]] == ["on"] * RANKS and [way for _, way in said["off"]] == ["off"] * RANKS
    assert [result for result, _ in said["on"]] == [result for result, _ in said["off"]]


def join_wishing(wishes):
    """The error of opening a group, or what its session says."""
    import switchml

    rank = harness.this_rank()
    os.environ["SWITCHML_ENCRYPTION"] = wishes[rank]
    folder = harness._rank_state["place"][0].folder
    error = harness.caught(
        dist.init_process_group, "switchml", init_method=f"file://{folder}/{'-'.join(wishes)}", rank=rank,
        world_size=len(wishes), timeout=harness.seconds(60),
    )  # fmt: skip
    error = error or harness.caught(dist.all_reduce, torch.ones(8))
    return error or switchml.stats()["session"]["encryption"]


@pytest.mark.parametrize("wishes", (("on", "auto", "auto"), ("auto", "on", "off")), ids="-".join)
def test_ranks_agree_or_all_are_told(wishes):
    with harness.fresh_pool(len(wishes), join_group=False, with_gloo=False) as own:
        said = own.run(join_wishing, wishes)
    if "off" not in wishes:
        assert said == ["on"] * len(wishes)
        return
    for text in said:
        assert 'rank 2 has SWITCHML_ENCRYPTION "off" but rank 1 has "on"' in text, said


def test_a_switch_without_a_key_is_an_error_where_encryption_is_asked_for():
    environment = {"SWITCHML_SWITCH": f"127.0.0.1:{harness.free_port()}"}
    with harness.fresh_pool(2, environment=environment, join_group=False, with_gloo=False) as own:
        for text in own.run(join_wishing, ("on", "on")):
            assert 'SWITCHML_ENCRYPTION="on" cannot be had' in text and "SWITCHML_SWITCH_KEY_FILE" in text, text


def join_without_ciphers(rank):
    if harness.this_rank() == rank:  # This library has no ciphers that are approved, as in a mode of some systems.
        assert ctypes.CDLL("libcrypto.so.3").EVP_default_properties_enable_fips(None, 1) == 1
    return join_wishing(("auto", "off", "auto"))


@pytest.mark.parametrize("rank", (0, 1))
def test_a_host_without_ciphers_is_an_error_on_all_ranks(rank):
    with harness.fresh_pool(RANKS, join_group=False, with_gloo=False) as own:
        for text in own.run(join_without_ciphers, rank):
            assert "OpenSSL gives no" in text and "openssl list -providers" in text, text


# ---- several hosts ----


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    """Their names, which are those of namespaces."""
    if lab.missing():
        pytest.skip(lab.missing())
    with lab.Lab(tmp_path_factory.mktemp("hosts")) as network:
        here, there = network.namespace("sealed-a"), network.namespace("sealed-b")
        network.link(here, "data", there, "data")
        network.address(here, "data", "10.79.0.1/24")
        network.address(there, "data", "10.79.0.2/24")
        yield here, there


def join_on(hosts, settings):
    pool, rank = harness._rank_state["place"]
    with open(f"/run/netns/{hosts[2 * rank // pool.size]}") as namespace:
        assert ctypes.CDLL(None).setns(namespace.fileno(), 0) == 0
    os.environ |= {"SWITCHML_INTERFACE": "data", **settings}
    dist.init_process_group(
        "switchml", init_method=f"file://{pool.folder}/store", rank=rank, world_size=pool.size,
        timeout=harness.seconds(60),
    )  # fmt: skip


@pytest.mark.parametrize("ranks", (2, 4), ids=("apart", "several-a-host"))
def test_hosts_encrypt_by_themselves(hosts, ranks):
    said = {}
    for encryption, settings in {"on": {}, "off": {"SWITCHML_ENCRYPTION": "off"}}.items():
        with harness.fresh_pool(ranks, join_group=False, with_gloo=False) as own:
            own.run(join_on, hosts, {"SWITCHML_TRANSPORT": "auto", **settings})
            said[encryption] = own.run(every_collective)
            own.close()
    assert [way for _, way in said["on"]] == ["on"] * ranks and [way for _, way in said["off"]] == ["off"] * ranks
    assert [result for result, _ in said["on"]] == [result for result, _ in said["off"]]
