"""No switch is named, and ranks are on several hosts: each host adds a part of every tensor."""

import signal
import time

import lab
import pytest
import star

HOSTS = 8
RATE = 50
SECONDS = 2.0
GENEROUS = 120.0  # seconds for whatever must come, on a busy machine; also the group's timeout
LOSS = {"lose": 1e-2, "copy": 1e-2, "hold_back": 1e-2}
SECOND_PORT = star.PORT + 1


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    with star.Star(tmp_path_factory.mktemp("every"), ranks=HOSTS, rate=RATE, faults_of="all") as network:
        yield network


def job_on(network, name, hosts=HOSTS, per_host=1, **settings):
    return star.Job(network, name, per_host=per_host, hosts=hosts, **{"SWITCHML_SWITCH": "", **settings})


def sent_bytes(host, interface="data"):
    return int(lab.run("ip", "netns", "exec", host, "cat", f"/sys/class/net/{interface}/statistics/tx_bytes"))


@pytest.mark.parametrize("transport, hosts, per_host, weather", (
    ("auto", 3, 1, {}), ("auto", 2, 1, LOSS), ("auto", HOSTS, 1, LOSS), ("auto", 3, 2, LOSS), ("tcp", HOSTS, 1, {}), ("tcp", 3, 2, LOSS)))  # fmt: skip
def test_every_bit_is_right(network, transport, hosts, per_host, weather):
    job = job_on(network, f"bits{transport}{hosts}{per_host}", hosts, per_host, SWITCHML_TRANSPORT=transport)
    session = job.run(GENEROUS, "session")[0]
    assert (session["precision"], session["switch"].count("embedded in rank")) == ("exact", hosts), session
    carrier = "udp" if transport == "auto" else transport  # links of this rate are for UDP
    assert session["transport"] == (f"shm+{carrier}" if per_host > 1 else carrier)
    assert (session["shards"], session["job_shards"]) == (1, per_host)
    network.disturb(**weather)
    ranks = job.run(GENEROUS, "soak", SECONDS, 3)
    network.disturb()
    assert all(rank["calls"] > 10 and rank["elements_summed_by_switch"] > 0 for rank in ranks), ranks
    if weather and carrier == "udp":
        assert sum(rank["retransmissions"] for rank in ranks) > 0, ranks
    job.end()


def test_every_sum_is_rounded_once_where_that_is_asked_for(network):
    job = job_on(network, "exact", 2, 3, SWITCHML_PRECISION="exact")
    session = job.run(GENEROUS, "session")[0]
    assert (session["precision"], session["transport"], session["switch"].count("embedded in rank")) == (
        "exact",
        "shm+udp",
        2,
    ), session
    assert all(
        rank["calls"] > 10 for rank in job.run(GENEROUS, "soak", SECONDS, 3)
    )  # as of ranks that have a host each
    job.end()


@pytest.mark.parametrize("transport, hosts", (("udp", 2), ("udp", 4), ("udp", HOSTS), ("tcp", 4)))
def test_a_link_carries_what_a_ring_would_have_it_carry(network, transport, hosts):
    """2 (n - 1) / n of the tensor each way, and headers; over TCP acknowledgements too. A host's own part stays in its
    memory, and takes no socket either."""
    elements, times = 2**20, 3
    job = job_on(network, f"bytes{transport}{hosts}", hosts, SWITCHML_TRANSPORT=transport)
    before = [sent_bytes(host) for host in network.hosts[:hosts]]
    to_itself = sent_bytes(network.hosts[0], "lo")
    job.run(GENEROUS, "timed", elements, times)
    after = [sent_bytes(host) for host in network.hosts[:hosts]]
    ring = 2 * (hosts - 1) / hosts * 4 * elements * times
    for host, (first, last) in enumerate(zip(before, after)):
        assert 1.0 < (last - first) / ring < (1.12 if transport == "udp" else 1.2), (
            f"host {host}: {last - first} bytes, a ring's are {ring}"
        )
    assert sent_bytes(network.hosts[0], "lo") - to_itself < ring / 10 / (hosts - 1)
    job.end()


@pytest.mark.parametrize("transport, victim", (("udp", 0), ("udp", 2), ("tcp", 2)))
def test_a_killed_rank_is_named_by_all_others(network, transport, victim):
    """With it goes the switch of its host's part."""
    job = job_on(network, f"kill{transport}{victim}", 4, SWITCHML_TRANSPORT=transport)
    job.tell("until_error", GENEROUS)
    job.await_calls()
    job.ranks[victim].send_signal(signal.SIGKILL)
    job.ranks[victim].wait()
    others = [rank for rank in range(4) if rank != victim]
    for rank, answer in job.answers_of(others, GENEROUS).items():
        assert f"rank {victim} " in answer["message"], f"rank {rank}: {answer['message']}"
    for rank in others:
        job.ranks[rank].kill()
        job.ranks[rank].wait()


@pytest.mark.parametrize("transport", ("udp", "tcp"))
def test_a_short_cut_of_a_host_costs_only_time(network, transport):
    job = job_on(network, f"short-{transport}", 4, SWITCHML_FAILURE_TIMEOUT=str(GENEROUS), SWITCHML_TRANSPORT=transport)
    over = network.folder / f"short over {transport}"
    job.tell("soak", str(over), 7)
    job.await_calls()
    network.cut(network.bridge, "r2")
    time.sleep(2)
    network.heal(network.bridge, "r2")
    over.touch()
    assert all(rank["calls"] > 10 for rank in job.collect(GENEROUS))
    job.end()


@pytest.mark.parametrize("transport", ("udp", "tcp"))
def test_a_host_that_is_cut_off_is_named(network, transport):
    job = job_on(network, f"long-{transport}", 4, SWITCHML_FAILURE_TIMEOUT="5", SWITCHML_TRANSPORT=transport)
    job.tell("until_error", GENEROUS)
    job.await_calls()
    network.cut(network.bridge, "r2")
    answers = job.collect(GENEROUS)
    network.heal(network.bridge, "r2")
    for rank, answer in enumerate(answers):
        assert "message" in answer, f"rank {rank}: {answer}"
        assert rank == 2 or "rank 2" in answer["message"], f"rank {rank}: {answer['message']}"
    job.end()


def test_named_switches_have_parts_by_their_weights(network):
    second = network.start("second", lab.program("switchml-switchd"), "--listen", f"{star.SWITCH}:{SECOND_PORT}",
                           "--stats-interval", "1", "--log-level", "info", namespace=network.switch)  # fmt: skip
    network.await_line("second", second, "listening on ")
    first = network.switch_counters().get("packets_received", 0)
    job = job_on(network, "named", 3, SWITCHML_SWITCH=f"{star.SWITCH}:{star.PORT},{star.SWITCH}:{SECOND_PORT}*3")
    ranks = job.run(GENEROUS, "soak", SECONDS, 3)
    assert all(rank["calls"] > 10 for rank in ranks), ranks
    job.run(GENEROUS, "timed", 2**22, 2)
    job.end()
    second.send_signal(signal.SIGTERM)
    second.wait(GENEROUS)
    time.sleep(1.5)  # until the first has logged what it counted
    share = network.switch_counters("second")["packets_received"]
    other = network.switch_counters()["packets_received"] - first
    assert 2.0 < share / other < 4.0, (share, other)
