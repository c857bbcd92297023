"""A host on the path sees, alters, repeats and injects packets. With encryption it reads no tensor and makes no sum
wrong, and the job goes on; without it reads what it likes, and what it has read lets it alter sums."""

import secrets
import struct
import time

import attacker
import lab
import pytest
import star
from strangers import Forger

GENEROUS = 120.0  # seconds for whatever must come, on a busy machine
MARK = (1.2345678, -2.3456789, 3.4567891, -4.5678912)
#: What travels: a rank's tensor, the sum of both, and a message.
MARKS = {
    what: struct.pack("<4f", *(factor * value for value in MARK))
    for what, factor in (("term", 1), ("sum", 2), ("message", -1))
}
KEYED = f"{star.SWITCH}:{star.PORT + 1}"
ON = {"SWITCHML_ENCRYPTION": "on"}
OFF = {"SWITCHML_ENCRYPTION": "off"}
REASONS = {"dropped_plain", "dropped_forged", "dropped_replayed"}


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    with star.Star(tmp_path_factory.mktemp("path"), ranks=2, rate=0, faults_of=None) as network:
        network.key = network.folder / "switch.key"
        network.key.touch(mode=0o600)
        network.key.write_text(secrets.token_hex(32) + "\n")
        keyed = network.start("keyed", lab.program("switchml-switchd"), "--listen", KEYED, "--key-file", network.key,
                              "--stats-interval", "1", "--log-level", "info", namespace=network.switch)  # fmt: skip
        network.await_line("keyed", keyed, "listening on ")
        network.attacker = attacker.Attacker(network, "r0")
        yield network
        network.attacker.stop()


def job_on(network, name, is_keyed=False, transport="udp", **settings):
    """Where it is not keyed, each host embeds a switch."""
    switch = {"SWITCHML_SWITCH": KEYED, "SWITCHML_SWITCH_KEY_FILE": str(network.key)} if is_keyed else {}
    return star.Job(network, name, **{"SWITCHML_SWITCH": "", "SWITCHML_TRANSPORT": transport, **switch, **settings})


def run(network, hands, job, call, *arguments):
    """What a job says of a call, meanwhile in these hands from its opening on."""
    answers = job.run(GENEROUS, call, *arguments)
    network.attacker.hands = None
    assert network.attacker.refused is None, network.attacker.refused
    return answers


def seen(network, name, *how, **settings):
    """What of a tensor was in a packet."""
    network.attacker.hands = listener = attacker.Listener(MARKS.values())
    job = job_on(network, name, *how, **settings)
    run(network, listener, job, "marked", MARK)
    job.end()
    assert listener.packets > 100, "the job's packets went another way"
    return {what for what, mark in MARKS.items() if listener.seen[mark]}


@pytest.mark.parametrize("transport", ("udp", "tcp"))
def test_a_listener_reads_tensors_only_where_nothing_is_encrypted(network, transport):
    assert seen(network, f"plain-{transport}", False, transport, **OFF) == set(MARKS)
    assert seen(network, f"sealed-{transport}", False, transport, **ON) == set()
    assert seen(network, f"keyed-{transport}", True, transport, **ON) == set()


def test_who_reads_a_join_can_alter_a_sum_where_nothing_is_encrypted(network):
    network.attacker.hands = wise = attacker.Wise()
    with pytest.raises(lab.LabError, match="elements of .* differ"):
        run(network, wise, job_on(network, "alterable", **OFF), "soak", 0.0, 1)
    assert wise.forged > 0
    network.attacker.hands = wise = attacker.Wise()
    job = job_on(network, "unalterable", **ON)
    run(network, wise, job, "soak", 0.0, 1)
    job.end()
    assert wise.forged == 0


@pytest.mark.parametrize("is_keyed", (False, True), ids=("embedded", "keyed"))
def test_what_is_altered_repeated_or_injected_is_dropped(network, is_keyed):
    """Also what an earlier session of the same hosts, and with the same key, has sent."""
    network.attacker.hands = listener = attacker.Listener()
    job = job_on(network, f"before-{is_keyed}", is_keyed, **ON)
    run(network, listener, job, "soak", 0.0, 1)
    job.end()
    network.attacker.hands = vandal = attacker.Vandal(1, listener.kept, Forger(1).for_switch)
    before = network.switch_counters("keyed")
    job = job_on(network, f"through-{is_keyed}", is_keyed, **ON)
    for rank in run(network, vandal, job, "soak", 0.0, 2):
        assert rank["calls"] > 0 and rank["results_damaged"] == rank["results_foreign"] == 0, rank
    assert min(vandal.done[what] for what in vandal.chances) > 50, vandal.done
    if is_keyed:
        await_drops(network, before)
    else:
        drops = job.run(GENEROUS, "drops")
        assert all(rank[reason] > 0 for rank in drops for reason in REASONS), drops
    job.run(GENEROUS, "soak", 0.0, 3)
    job.end()


def test_a_stream_with_altered_bits_gives_right_sums(network):
    """Over TCP: a frame does not open, or what frames it is broken, and the connection is made again."""
    network.attacker.hands = bender = attacker.Bender(3000)
    job = job_on(network, "bent", False, "tcp", **ON)
    ranks = run(network, bender, job, "soak", 0.0, 2)
    assert bender.altered > 0 and all(rank["calls"] > 0 and rank["results_damaged"] == 0 for rank in ranks), ranks
    assert sum(rank["retransmissions"] + rank["repeats_waiting"] for rank in ranks) > 0, ranks
    job.end()


def await_drops(network, before):
    """Its log is a second behind."""
    end = time.monotonic() + GENEROUS
    while any(network.switch_counters("keyed").get(reason, 0) <= before.get(reason, 0) for reason in REASONS):
        assert time.monotonic() < end, network.switch_counters("keyed")
        time.sleep(0.1)
