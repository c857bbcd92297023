"""What the driver for BFRuntime makes of where members are: stations, ports that come and go, and the pipe that a job
lies in."""

import pytest

pytest.importorskip("grpc", reason="needs grpcio: pip install grpcio protobuf")

import bfrt_switch
from switchml_agent import bfrt_program
from test_bfrt import driver, install, m, member, refused, switch  # noqa: F401  fixtures among them

STATION = "headers.ethernet.destination"


def remove_port(switch, port):  # noqa: F811
    del switch.entries[bfrt_program.PORTS][("$DEV_PORT", port),]


def stations(switch):  # noqa: F811
    """{last byte of the MAC address: port}"""
    return {key[0][1] & 0xFF: values["port"] for key, (_, values) in switch.entries[bfrt_program.STATIONS].items()}


# ---- stations ----


def test_what_goes_to_a_member_is_not_flooded(switch, driver):  # noqa: F811
    install(driver)
    assert stations(switch) == {5: 4}  # the configured one
    member(driver)
    member(driver, shard=1, udp_port=4712)  # the same host
    assert stations(switch) == {5: 4, 2: 4}
    member(driver, port=8)
    assert stations(switch) == {5: 4, 2: 4}  # where the other shard still is
    member(driver, port=8, shard=1, udp_port=4712)
    assert stations(switch) == {5: 4, 2: 8}
    driver.remove(m.RemoveRequest(job=3, epoch=7))
    assert stations(switch) == {5: 4}


def test_a_host_stays_known_as_long_as_one_of_its_sessions(switch, driver):  # noqa: F811
    install(driver)
    install(driver, job=4, pages=[1, 2])
    member(driver)
    member(driver, job=4)
    driver.remove(m.RemoveRequest(job=3, epoch=7))
    assert stations(switch) == {5: 4, 2: 4}
    driver.remove(m.RemoveRequest(job=4, epoch=7))
    assert stations(switch) == {5: 4}


def test_a_configured_station_stays_where_it_was_configured(switch, driver):  # noqa: F811
    install(driver)
    member(driver, worker=5, port=8)
    assert stations(switch) == {5: 4}
    driver.remove(m.RemoveRequest(job=3, epoch=7))
    assert stations(switch) == {5: 4}


def claim(driver, job, worker, mac, port):  # noqa: F811
    """A member of the job says that it has this address."""
    place = m.SwitchPlace(address=f"10.0.0.{worker}:4711", mac=mac, port=port)
    driver.set_member(m.SetMemberRequest(job=job, epoch=7, worker=worker, place=place))


@pytest.mark.parametrize("mac, port", (("02:00:00:00:00:02", 4), ("02:00:00:00:00:05", 4), ("02:00:00:00:00:fe", None)))
def test_a_claimed_address_stays_with_its_holder(switch, driver, mac, port):  # noqa: F811
    """A member's, a configured station's, the switch's own: whichever job the claim comes from, and after it has
    gone."""
    install(driver)
    install(driver, job=4, pages=[1, 2])
    member(driver)
    last = int(mac[-2:], 16)
    claim(driver, 4, 5, mac, 8)
    assert stations(switch).get(last) == port
    assert switch.copies(64) == [(6, 8)]  # its own results do go where it is
    driver.remove(m.RemoveRequest(job=4, epoch=7))
    assert stations(switch).get(last) == port
    driver.remove(m.RemoveRequest(job=3, epoch=7))
    assert stations(switch) == {5: 4}


@pytest.mark.parametrize("mac", ("ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01", "03:00:00:00:00:02", "00:00:00:00:00:00"))
def test_an_address_that_is_no_hosts_is_refused(switch, driver, mac):  # noqa: F811
    install(driver)
    before = switch.content()
    with refused("INVALID_ARGUMENT", f"worker 2: MAC address '{mac}': allowed are those of one host, as 02:"):
        claim(driver, 3, 2, mac, 4)
    assert switch.content() == before


# ---- ports ----


def test_a_port_that_appears_later_is_taken_without_a_restart(switch, driver):  # noqa: F811
    install(driver)
    member(driver)
    instance = driver.instance
    with refused("INVALID_ARGUMENT", "worker 5 10.0.0.5:4711: port 12: allowed are 4, 8"):
        member(driver, worker=5, port=12)
    switch.add_port(12)
    member(driver, worker=5, port=12)
    assert switch.copies(48) == [(3, 4), (6, 12)]
    assert sorted(switch.copies(1)) == [(0, 4), (0, 8), (0, 12)]
    assert driver.capabilities().instance == instance


@pytest.mark.parametrize("port", ({"loopback": "BF_LPBK_MAC_NEAR"}, {"internal": True}))
def test_nothing_is_flooded_to_what_leads_back_into_the_chip(switch, driver, port):  # noqa: F811
    """Two such ports would send a broadcast to one another for ever."""
    switch.add_port(196, **port)
    switch.add_port(12, **port)
    driver.connect()
    assert sorted(switch.copies(1)) == [(0, 4), (0, 8)]
    install(driver)
    with refused("INVALID_ARGUMENT", "worker 5 10.0.0.5:4711: port 12: allowed are 4, 8"):
        member(driver, worker=5, port=12)
    switch.add_port(12)  # its loopback is taken off
    switch.add_port(8, **port)
    driver.capabilities()
    assert sorted(switch.copies(1)) == [(0, 4), (0, 12)]


def test_ports_are_looked_at_whenever_the_controller_asks_how_the_switch_is(switch, driver):  # noqa: F811
    install(driver)
    switch.add_port(12)
    remove_port(switch, 8)
    instance = driver.instance
    assert driver.capabilities().instance == instance
    assert sorted(switch.copies(1)) == [(0, 4), (0, 12)]
    for port in (4, 12):
        remove_port(switch, port)
    assert driver.capabilities().instance == instance  # all gone for a moment: no reason to end sessions
    assert sorted(switch.copies(1)) == [(0, 4), (0, 12)]


def test_ports_that_are_refused_end_no_session(switch, driver):  # noqa: F811
    install(driver)
    switch.add_port(12)
    instance = driver.instance
    for nth in (1, 2, 3):
        switch.fail_at = switch.writes + nth
        assert driver.capabilities().instance == instance
    switch.fail_at = 0
    assert driver.capabilities().instance == instance
    assert sorted(switch.copies(1)) == [(0, 4), (0, 8), (0, 12)]


def test_answers_leave_by_a_port_that_appears_later(switch, driver):  # noqa: F811
    asked = m.SwitchPlace(address="10.0.0.9:4711", mac="02:00:00:00:00:09", port=12)
    with refused("INVALID_ARGUMENT", "worker 10.0.0.9:4711: port 12: allowed are 4, 8"):
        driver.place(asked)
    switch.add_port(12)
    assert driver.place(asked).port == 12


# ---- the pipe of a job ----


def home(switch, job=3):  # noqa: F811
    """The pipe to which the ways of a job lead: of its passes, and from all others."""
    ways = {
        dict(key)["intrinsic.ingress_port"][0] >> 7: values["port"] >> 7
        for key, (_, values) in switch.entries[bfrt_program.HOMES].items()
        if dict(key)["headers.switchml.job"] == job
    }
    (pipe,) = set(ways.values())
    assert sorted({*ways, pipe}) == list(range(bfrt_switch.Switch.PIPES)) and pipe not in ways
    passes = [values["port"] >> 7 for key, (_, values) in switch.entries[bfrt_program.LOOPS].items()
              if dict(key)["headers.switchml.job"] == job]  # fmt: skip
    assert set(passes) == {pipe}
    return pipe


@pytest.fixture
def wide(switch, driver):  # noqa: F811
    """A switch with ports of two pipes: 4 and 8, 136 and 140."""
    for port in (136, 140):
        switch.add_port(port)
    return switch


def test_a_job_lies_where_most_of_its_members_are(wide, driver):  # noqa: F811
    install(driver, members=[2, 5, 6])
    assert home(wide) == 3  # until anything is known
    member(driver, port=136)
    assert home(wide) == 1
    member(driver, worker=5, port=4)
    assert home(wide) == 1  # as many here as there
    member(driver, worker=6, port=8)
    assert home(wide) == 0


def test_a_job_of_members_that_have_joined_does_not_move(wide, driver):  # noqa: F811
    """Its slots hold what the others have contributed."""
    install(driver)
    member(driver, port=136)
    member(driver, worker=5, port=140)
    for shard in (0, 1):
        member(driver, port=4, shard=shard, udp_port=4711 + shard)
        member(driver, worker=5, port=4, shard=shard, udp_port=4711 + shard)
    assert home(wide) == 1


def test_a_job_is_open_when_it_moves_no_more(wide, driver):  # noqa: F811
    """A pipe that was to hold its first segment may be to hold another one, whose registers must be untouched."""
    install(driver, members=[2, 5, 6])
    member(driver, port=136)
    member(driver, worker=6)
    for nth in (1, 2):  # the worker's own entry, which stays after the second, and its first one as a member
        wide.fail_at = wide.writes + nth
        with refused("RESOURCE_EXHAUSTED", "the switch refused: "):
            member(driver, worker=5, port=140)
        assert not wide.entries[bfrt_program.SESSIONS]
    member(driver, worker=5, port=140)
    assert len(wide.entries[bfrt_program.SESSIONS]) == 1 and home(wide) == 1
    wide.fail_at = wide.writes + 6  # its old entries are taken out, and a new one is refused
    with refused("RESOURCE_EXHAUSTED", "the switch refused: "):
        member(driver, worker=5, port=4)
    member(driver, worker=5, port=4)
    assert home(wide) == 1
    driver.remove(m.RemoveRequest(job=3, epoch=7))
    assert not wide.entries[bfrt_program.SESSIONS]


def test_contributors_are_read_where_the_job_lies(wide, driver):  # noqa: F811
    install(driver, shards=1, slots=130)
    member(driver, port=136)
    index = (4 * 128 + 1) * 2 + 1
    for register, name, value in (
        (bfrt_program.PAIRS, "lower", 5), (bfrt_program.PAIRS, "upper", 7),
        (bfrt_program.CONTRIBUTED_LOW, "f1", 2), (bfrt_program.CONTRIBUTED_HIGH, "f1", 0),
    ):  # fmt: skip
        held = wide.registers.setdefault((register, index), {})
        held[bfrt_program.field(register, name)] = [value if pipe == 1 else 0 for pipe in range(4)]
    assert list(driver.contributors(m.ContributorsRequest(job=3, epoch=7, slot=129, seq=5)).members) == [5]


def test_a_move_that_is_refused_leaves_the_job_where_it_was(wide, driver):  # noqa: F811
    install(driver)
    removals = 1 + 3  # of one pass, and from three pipes
    for nth in range(1, removals + 1):
        wide.fail_at = wide.writes + removals + nth
        with refused("RESOURCE_EXHAUSTED", "the switch refused: "):
            member(driver, port=136)
        assert home(wide) == 3
    member(driver, port=136)
    assert home(wide) == 1
    driver.remove(m.RemoveRequest(job=3, epoch=7))
    assert not wide.entries[bfrt_program.LOOPS] and not wide.entries[bfrt_program.HOMES]
