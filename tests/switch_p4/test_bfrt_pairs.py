"""Members with queue pairs, as the driver for BFRuntime is told of them, against a switch without chip."""

import pytest

pytest.importorskip("grpc", reason="needs grpcio: pip install grpcio protobuf")

import bfrt_switch
from switchml_agent import bfrt, bfrt_program, sessions
from test_bfrt import SETTINGS, install, m, refused

PAIR = m.QueuePair(number=0x123456, address=9 << 32, rkey=77)


@pytest.fixture
def switch():
    return bfrt_switch.Switch(bfrt_switch.program_tables(1, True))


def connected(switch, monkeypatch):
    monkeypatch.setattr(bfrt, "Runtime", lambda *arguments: switch)
    made = bfrt.Bfrt(SETTINGS)
    made.connect()
    return made


@pytest.fixture
def driver(switch, monkeypatch):
    made = connected(switch, monkeypatch)
    install(made)
    return made


def join(driver, worker=2, shard=0, **changes):
    place = m.SwitchPlace(address=f"10.0.0.{worker}:{4711 + shard}", mac=f"02:00:00:00:00:{worker:02x}", port=4)
    fields = {"job": 3, "epoch": 7, "worker": worker, "shard": shard, "place": place, "pair": PAIR}
    return driver.set_member(m.SetMemberRequest(**{**fields, **changes}))


def psn(switch, index):
    return switch.registers[bfrt_program.PSNS, index]["SwitchEgress.copies.to_pair.psns.f1"]


def test_a_switch_says_whether_it_has_pairs(driver, monkeypatch):
    assert driver.capabilities().pairs
    other = connected(bfrt_switch.Switch(), monkeypatch)
    assert not other.capabilities().pairs
    install(other)
    with refused("INVALID_ARGUMENT", "worker 2: this switch is not the end of queue pairs"):
        join(other)


def test_a_pair_is_known_by_its_number_and_receives_in_its_memory(switch, driver):  # [RDMA-13, RDMA-15]
    reply = join(driver)
    number = sessions.pair_number(3, 2, 0)
    assert reply.pair.number == number
    assert psn(switch, 0) == [reply.pair.first_psn] * switch.PIPES
    (source,) = switch.entries[bfrt_program.SOURCES].items()
    assert dict(source[0]) == {
        "headers.switchml.job": 3, "headers.switchml.worker": 2, "headers.ipv4.source": 0x0A000002,
        "origin_high": 3, "origin": 2 << 8,
    }  # fmt: skip
    assert source[1] == ("SwitchIngress.session.speaks", {"shard": 0})
    assert list(switch.entries[bfrt_program.MEMBERS].values()) == [("SwitchEgress.copies.pair", {
        "mac": 0x020000000002, "ip": 0x0A000002, "source": 0xC000 | 0x3456, "queue_pair": 0x123456, "address_high": 9,
        "rkey": 77, "own": 0,
    })]  # fmt: skip
    assert switch.copies(48) == [(3, 4)]


def test_the_same_pair_again_changes_nothing(switch, driver):  # [MEET-4]
    first = join(driver)
    writes = switch.writes
    assert join(driver) == first
    assert switch.writes == writes


def test_each_pair_counts_for_itself(switch, driver):
    replies = [join(driver), join(driver, 5), join(driver, shard=1)]
    assert [psn(switch, i)[0] for i in range(3)] == [reply.pair.first_psn for reply in replies]
    assert len({reply.pair.number for reply in replies}) == 3


def test_a_member_may_go_on_with_datagrams(switch, driver):
    join(driver)
    assert not join(driver, pair=None).HasField("pair")
    (source,) = switch.entries[bfrt_program.SOURCES]
    assert (dict(source)["origin_high"], dict(source)["origin"]) == (0, 4711)
    ((action, _),) = switch.entries[bfrt_program.MEMBERS].values()
    assert action == "SwitchEgress.copies.member"


def test_a_leaf_has_none_with_several_segments(monkeypatch):
    """A parent's result has no check behind it, and one of several segments gets none."""
    uplink = m.Uplink(worker=2, parent=m.SwitchPlace(address="10.0.0.9:48879", mac="02:00:00:00:00:09", port=4))
    large = connected(bfrt_switch.Switch(bfrt_switch.program_tables(4, True)), monkeypatch)
    install(large, payload_bytes=1024)
    assert join(large).HasField("pair")
    large.reset()
    install(large, payload_bytes=1024, uplink=uplink)
    with refused("INVALID_ARGUMENT", "worker 2: at a switch with a parent there are no pairs with payloads of 1024"):
        join(large)
    assert not join(large, pair=None).HasField("pair")


def test_a_leaf_has_pairs_with_one_segment(switch, driver):
    driver.reset()
    uplink = m.Uplink(worker=2, parent=m.SwitchPlace(address="10.0.0.9:48879", mac="02:00:00:00:00:09", port=4))
    install(driver, uplink=uplink)
    assert join(driver).HasField("pair")


def test_pairs_end_with_their_session(switch, driver):  # [MEET-5]
    driver.remove(m.RemoveRequest(job=3, epoch=7))
    before = switch.content()
    install(driver)
    for worker in (2, 5):
        join(driver, worker)
    driver.remove(m.RemoveRequest(job=3, epoch=7))
    assert switch.content() == before


def test_what_an_earlier_agent_left_is_removed(switch, driver):
    join(driver)
    driver.connect()
    assert switch.entries[bfrt_program.SOURCES] == {}
