"""The driver for BFRuntime, against a switch without chip: its tables are held to those of the compiled program."""

import contextlib
import dataclasses
import re
import sys

import pytest

try:
    from switchml_agent import api
except ImportError as error:
    pytest.skip(
        f"{error} (pip install grpcio protobuf, or apt install python3-grpcio python3-protobuf)",
        allow_module_level=True,
    )


import bfrt_switch
from switchml_agent import bfrt, bfrt_main, bfrt_program
from switchml_agent.errors import Refusal
from test_bfrt_tables import program
from vectors import wire

m = api.messages
SETTINGS = bfrt.Settings(
    "127.0.0.1:50052", 0, "switchml", 0, "10.0.0.254", "02:00:00:00:00:fe", 64, {"02:00:00:00:00:05": 4}, (132,)
)  # fmt: skip
OWN_MAC = 0x0200000000FE
OTHER_CHIPS = ("tf1.dev.device_configuration", "tf2.dev.device_configuration")


@contextlib.contextmanager
def refused(code, text):
    with pytest.raises(Refusal, match=f"^{re.escape(text)}") as refusal:
        yield
    assert refusal.value.code == code


# ---- the driver ----


@pytest.fixture
def switch():
    return bfrt_switch.Switch()


@pytest.fixture
def driver(switch, monkeypatch):
    monkeypatch.setattr(bfrt, "Runtime", lambda *arguments: switch)
    made = bfrt.Bfrt(SETTINGS)
    made.connect()
    return made


def install(driver, **changes):
    fields = {"job": 3, "epoch": 7, "shards": 2, "slots": 256, "payload_bytes": 256, "members": [2, 5], "pages": [9, 4]}
    driver.install(m.InstallRequest(**{**fields, **changes}))


def member(driver, worker=2, shard=0, port=4, udp_port=4711, **changes):
    place = m.SwitchPlace(address=f"10.0.0.{worker}:{udp_port}", mac=f"02:00:00:00:00:{worker:02x}", port=port)
    driver.set_member(
        m.SetMemberRequest(**{"job": 3, "epoch": 7, "worker": worker, "shard": shard, "place": place, **changes})
    )


def test_what_a_switch_is_told_at_first(switch, driver):
    assert switch.entries[bfrt_program.ADDRESSES] == {(("ip", 0x0A0000FE),): ("SwitchIngress.own_address.mine", {})}
    assert switch.defaults[bfrt_program.MAC] == ("SwitchIngress.own_address.own_mac", {"mac": OWN_MAC})
    assert switch.defaults[bfrt_program.CONTROL_PORT] == ("SwitchIngress.control_port.hand_over", {"port": 64})
    assert sorted(switch.copies(1)) == [(0, 4), (0, 8)]  # neither the control port nor those that loop
    kinds = {key[0][1]: values["kind"] for key, (_, values) in switch.entries[bfrt_program.PORT_KINDS].items()}
    assert kinds == {64: 2, 132: 1}
    assert switch.entries[bfrt_program.STATIONS] == {
        (("headers.ethernet.destination", 5 | 2 << 40),): ("SwitchIngress.layer2.forward", {"port": 4})
    }


def test_capabilities(driver):
    assert driver.capabilities() == m.Capabilities(
        kind="tofino",
        instance=driver.instance,
        protocol_version=wire.VERSION,
        payload_bytes=[256],
        whole_chunks=True,
        members=64,
        jobs=72,
        operations=[m.Operation.SUM, m.Operation.MAX],
        trees=True,
        pages=80,
        page_slots=128,
        places=4096,
        mac=SETTINGS.mac,
    )


@pytest.mark.parametrize("more", (0, 1, 3, 7, 15))
@pytest.mark.parametrize("segments", (1, 4))
def test_as_many_sessions_fit_as_are_announced(segments, more, monkeypatch):
    """Whatever slots they have, and however wide their ways are."""
    switch = bfrt_switch.Switch(bfrt_switch.program_tables(segments))
    monkeypatch.setattr(bfrt, "Runtime", lambda *arguments: switch)
    driver = bfrt.Bfrt(
        dataclasses.replace(SETTINGS, loop_ports=[p << 7 | port for p in range(4) for port in range(more)])
    )
    switch.entries[bfrt_program.PORTS].clear()
    for port in (16, 20):
        switch.add_port(port)
    driver.connect()
    announced = driver.capabilities()
    assert announced.jobs == {0: 72, 1: 72, 3: 42, 7: 21, 15: 10}[more]
    for job in range(1, announced.jobs + 1):
        install(driver, job=job, shards=1, slots=127, pages=[job - 1], payload_bytes=256 * segments)
        member(driver, job=job, port=16)
        member(driver, 5, job=job, port=20)
    with refused("RESOURCE_EXHAUSTED", f"job 255: {announced.jobs} sessions are installed, the most that there can be"):
        install(driver, job=255, shards=1, slots=1, pages=[79], payload_bytes=256 * segments)


def test_a_host_that_no_station_is_left_for_is_flooded_to(switch, driver):
    switch.tables[bfrt_program.STATIONS].size = 1  # the configured one
    install(driver)
    member(driver)
    assert switch.copies(48) == [(3, 4)] and len(switch.entries[bfrt_program.STATIONS]) == 1
    driver.remove(m.RemoveRequest(job=3, epoch=7))


def test_what_was_there_before_is_removed(switch, driver):
    before = switch.content()
    install(driver)
    member(driver)
    driver.connect()
    assert switch.content() == before


def test_installing_twice_changes_nothing(switch, driver):
    install(driver)
    writes = switch.writes
    install(driver)
    assert switch.writes == writes
    with refused("FAILED_PRECONDITION", "job 3: it is in use by another session, with epoch 0x7"):
        install(driver, epoch=8)
    with refused("FAILED_PRECONDITION", "page 4: it belongs to job 3"):
        install(driver, job=4, shards=1, slots=128, pages=[4])
    with refused("INVALID_ARGUMENT", "payload_bytes 1024: the program in this switch takes 256 only"):
        install(driver, job=4, payload_bytes=1024)


def test_members_receive_where_they_joined_from(switch, driver):
    install(driver)
    member(driver)
    member(driver, shard=1, udp_port=4712)
    writes = switch.writes
    member(driver)  # a repeated join
    assert switch.writes == writes
    member(driver, port=8)  # the worker has moved
    assert (switch.copies(48), switch.copies(49)) == ([(3, 8)], [(3, 4)])
    receivers = {key: values["port"] for key, (_, values) in switch.entries[bfrt_program.MEMBERS].items()}
    assert receivers == {
        (("headers.bridge.audience", 48), ("intrinsic.egress_rid", 3)): 4711,
        (("headers.bridge.audience", 49), ("intrinsic.egress_rid", 3)): 4712,
    }
    assert len(switch.entries[bfrt_program.SOURCES]) == 2 and len(switch.entries[bfrt_program.WORKERS]) == 1


def test_a_child_switch_is_a_member_of_all_shards(switch, driver):
    install(driver)
    member(driver, worker=5, shard=-1, udp_port=48879)
    assert (switch.copies(48), switch.copies(49)) == ([(6, 4)], [(6, 4)])
    assert [values for _, values in switch.entries[bfrt_program.SOURCES].values()] == [{"shard": 255}]
    member(driver, worker=5, shard=0)  # replaces it
    assert (switch.copies(48), switch.copies(49)) == ([(6, 4)], [])


@pytest.mark.parametrize("changes, code, text", (
    ({"job": 4}, "NOT_FOUND", "job 4 with epoch 0x7: it is not installed"),
    ({"epoch": 8}, "NOT_FOUND", "job 3 with epoch 0x8: it is not installed"),
    ({"worker": 3}, "INVALID_ARGUMENT", "worker 3: job 3 has the members 2, 5"),
    ({"shard": 2}, "INVALID_ARGUMENT", "shard 2: allowed are -1 to 1"),
    ({"port": 68}, "INVALID_ARGUMENT", "worker 2 10.0.0.2:4711: port 68: allowed are 4, 8"),
    ({"port": 64}, "INVALID_ARGUMENT", "worker 2 10.0.0.2:4711: port 64: allowed are 4, 8"),
    ({"shard": 1}, "INVALID_ARGUMENT", "worker 2, shard 1: 10.0.0.2:4711 speaks for shard 0 already"),
))  # fmt: skip
def test_members_that_cannot_be(driver, changes, code, text):
    install(driver)
    member(driver)
    with refused(code, text):
        member(driver, **changes)


def test_removing_leaves_nothing(switch, driver):
    before, nodes = switch.content(), dict(switch.entries["$pre.node"])
    install(driver)
    for worker in (2, 5):
        member(driver, worker)
        member(driver, worker, shard=1, udp_port=4712)
    driver.remove(m.RemoveRequest(job=3, epoch=8))  # another session's
    assert switch.content() != before
    driver.remove(m.RemoveRequest(job=3, epoch=7))
    driver.remove(m.RemoveRequest(job=3, epoch=7))
    assert (switch.content(), switch.entries["$pre.node"]) == (before, nodes)
    install(driver)
    install(driver, job=4, pages=[1, 2])
    driver.reset()
    assert (switch.content(), switch.entries["$pre.node"]) == (before, nodes)


def test_a_full_switch_keeps_nothing_of_what_did_not_fit(switch, driver):
    before, nodes = switch.content(), dict(switch.entries["$pre.node"])
    first = switch.writes
    install(driver)
    needed = switch.writes - first
    driver.reset()
    for nth in range(1, needed + 1):
        switch.fail_at = switch.writes + nth
        with refused("RESOURCE_EXHAUSTED", "the switch refused: "):
            install(driver)
        assert (switch.content(), switch.entries["$pre.node"]) == (before, nodes)
    install(driver)
    joined = switch.content()
    # The worker's own entry stays after the second. A station that does not fit, the next write, is flooded to.
    for nth in (1, 3, 2, 3, 4, 5):
        switch.fail_at = switch.writes + nth
        with refused("RESOURCE_EXHAUSTED", "the switch refused: "):
            member(driver)
    driver.remove(m.RemoveRequest(job=3, epoch=7))
    install(driver)
    assert switch.content() == joined


def test_contributors(switch, driver):
    install(driver, shards=1, slots=130, pages=[9, 4], members=range(40))
    index = (4 * 128 + 1) * 2 + 1
    pipe = 3  # job 3 of four pipes

    def hold(epoch, seq, low, high):
        def at(name, **fields):
            values = {bfrt_program.field(name, each): [0xAA] * 4 for each in fields}
            for each, value in fields.items():
                values[bfrt_program.field(name, each)][pipe] = value
            switch.registers[name, index] = values

        at(bfrt_program.PAIRS, lower=seq, upper=epoch)
        at(bfrt_program.CONTRIBUTED_LOW, f1=low)
        at(bfrt_program.CONTRIBUTED_HIGH, f1=high)

    def ask(seq):
        return list(driver.contributors(m.ContributorsRequest(job=3, epoch=7, slot=129, seq=seq)).members)

    assert ask(5) == []  # empty registers
    hold(7, 5, 1 << 31 | 1, 1 << 7)
    assert ask(5) == [0, 31, 39]
    assert ask(3) == list(range(40))  # replaced by a newer one
    assert ask(7) == []  # not begun
    hold(6, 5, 1, 0)
    assert ask(5) == []  # of an earlier session
    with refused("INVALID_ARGUMENT", "slot 130: allowed are 0 to 129"):
        driver.contributors(m.ContributorsRequest(job=3, epoch=7, slot=130, seq=1))


def test_counters(switch, driver):
    install(driver)
    switch.counts.update({3 * 32 + 1: 10, 3 * 32 + 2: 5, 3 * 32 + 3: 4, 12: 9})
    values = {each.job: each.values for each in driver.counters().jobs}
    assert set(values) == {0, 3}
    assert (values[0]["dropped_session"], values[0]["uses_started"]) == (9, 0)
    assert (values[3]["contributions_added"], values[3]["uses_started"], values[3]["uses_completed"]) == (19, 5, 4)


def test_a_switch_that_was_started_anew_has_another_instance(switch, driver):
    install(driver)
    before = driver.instance
    switch.dead = True
    with refused("UNAVAILABLE", "the switch is gone, its sessions too: the server has ended the connection"):
        install(driver, job=4, pages=[1, 2])
    with refused("UNAVAILABLE", "BFRuntime at 127.0.0.1:50052: the server has ended the connection"):
        driver.capabilities()
    switch.dead = False
    assert driver.capabilities().instance != before
    with refused("NOT_FOUND", "job 3 with epoch 0x7: it is not installed"):
        member(driver)


def test_a_switch_without_ports_is_refused(switch, driver):
    switch.entries["$PORT"].clear()
    with refused("FAILED_PRECONDITION", "BFRuntime at 127.0.0.1:50052: the switch has no ports but the agent's"):
        driver.connect()


def test_loop_ports_are_in_a_pipe_that_there_is(switch, driver):
    switch.defaults["tf1.dev.device_configuration"] = None, {"num_pipes": 1}
    with refused("FAILED_PRECONDITION", "BFRuntime at 127.0.0.1:50052: loop port 132: the switch has 1 pipes"):
        driver.connect()


def test_a_missing_client_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "bfrt_grpc.client", None)
    monkeypatch.delitem(sys.modules, "bfrt_grpc", raising=False)
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(Refusal, match="BFRuntime's Python client, bfrt_grpc, is part of the P4 SDE") as refusal:
        bfrt.Bfrt(SETTINGS).connect()
    assert refusal.value.code == "FAILED_PRECONDITION"


# ---- the command line ----


LINE = ["--listen", "127.0.0.1:0", "--control-interface", "lo", "--control-port", "64", "--address", "10.0.0.254",
        "--mac", "02:00:00:00:00:fe", "--insecure-no-token"]  # fmt: skip


def test_options_and_their_defaults():
    given = bfrt_main.options("agent", LINE)
    assert (given.grpc, given.device, given.program, given.client, given.loop_port) == (
        ("127.0.0.1", 50052),
        0,
        "switchml",
        0,
        [],
    )
    given = bfrt_main.options(
        "agent", [*LINE, "--loop-port", "132", "--loop-port", "260", "--station", "02:00:00:00:00:05=4"]
    )
    assert (given.loop_port, given.station) == ([132, 260], [("02:00:00:00:00:05", 4)])


@pytest.mark.parametrize("more, text", (
    (["--grpc", "50052"], "argument --grpc: '50052': allowed are ADDRESS:PORT, PORT from 1 to 65535"),
    (["--device", "-1"], "argument --device: '-1': allowed are numbers from 0 on"),
    (["--client", "x"], "argument --client: 'x': allowed are numbers from 0 on"),
    (["--loop-port", "511"], "argument --loop-port: '511': allowed are port numbers from 0 to 510"),
    (["--control-port", "\u00b2"], "argument --control-port: '\u00b2': allowed are port numbers from 0 to 510"),
    (["--address", "host"], "argument --address: 'host': allowed are IPv4 addresses, as 10.0.0.254"),
    (["--token-file", "x"], "one of --token-file FILE and --insecure-no-token is needed"),
    (["--tls-key", "x"], "--tls-cert and --tls-key are needed together"),
))  # fmt: skip
def test_bad_options_are_named(more, text, capsys):
    with pytest.raises(SystemExit) as end:
        bfrt_main.options("agent", [*LINE, *more])
    assert end.value.code == 2 and text in capsys.readouterr().err


# ---- the compiled program ----


@pytest.fixture(scope="module", params=((1, False), (4, False), (1, True)), ids=("256B", "1024B", "256B-pairs"))
def compiled(request):
    """The tables as the compiler describes them."""
    if bfrt_switch.no_compiler():
        pytest.skip(bfrt_switch.no_compiler())
    return request.param, bfrt_switch.from_json(bfrt_switch.compiled(*request.param))


def test_the_tables_of_these_tests_are_the_compiled_ones(compiled):
    shape, tables = compiled
    for name, table in bfrt_switch.program_tables(*shape).items():
        if name.startswith("$") or name in OTHER_CHIPS:
            continue  # of every program
        compiled_one = tables[name]
        assert table.size == compiled_one.size, name
        for ours, theirs in (
            (table.keys, compiled_one.keys),
            (table.actions, compiled_one.actions),
            (table.data, compiled_one.data),
        ):
            assert {each: theirs.get(each) for each in ours} == ours, name


def test_the_driver_speaks_to_the_compiled_program(compiled, monkeypatch):
    """Everything that it ever writes or reads, with the checks of the compiled tables: all keys, all parameters, all
    widths."""
    (segments, pairs), tables = compiled
    fixed = {
        name: table
        for name, table in bfrt_switch.program_tables().items()
        if name.startswith("$") or name in OTHER_CHIPS
    }
    switch = bfrt_switch.Switch({**tables, **fixed})
    monkeypatch.setattr(bfrt, "Runtime", lambda *arguments: switch)
    driver = bfrt.Bfrt(SETTINGS)
    driver.connect()
    payload = driver.capabilities().payload_bytes[0]
    loops = (68, 132, 196, 324, 452)
    assert (payload, driver.program) == (256 * segments, program(segments, loop_ports=loops, pairs=pairs))
    before = switch.content()
    uplink = m.Uplink(worker=2, parent=m.SwitchPlace(address="10.0.0.9:48879", mac="02:00:00:00:00:09", port=4))
    install(
        driver,
        payload_bytes=payload,
        job=255,
        slots=10240,
        shards=16,
        pages=range(80),
        members=range(64, 128),
        uplink=uplink,
    )
    for worker in (64, 127):
        member(driver, worker, shard=-1, job=255)
    if pairs:
        member(
            driver, 127, shard=15, job=255, pair=m.QueuePair(number=2**24 - 1, address=2**64 - 2**32, rkey=2**32 - 1)
        )
    driver.contributors(m.ContributorsRequest(job=255, epoch=7, slot=10239, seq=1))
    assert len(driver.counters().jobs) == 2
    driver.remove(m.RemoveRequest(job=255, epoch=7))
    assert switch.content() == before
