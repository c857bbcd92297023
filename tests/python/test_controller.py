"""Workers, switchml-controller and software switches together: one switch, and a tree of three between hosts."""

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time

import harness
import lab
import pytest
import reducing_rank
import torch
import torch.distributed as dist
from controlled import MISSING, TOKENS, Controlled, described, one_switch, settings
from failing import FALLBACK, IN_TIME, TIMEOUT, check_all, doomed_pool, open_on_each, rank_sums_until, rank_warm_up
from oracle import FLOATS, INTEGERS, OPERATIONS, check_reduction, operation, values

pytest.importorskip("grpc", reason="needs grpcio: pip install grpcio protobuf")

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)


def embedded(network, size, **more):
    """Integers, as a controller's sessions add them."""
    settings_of_all = {"SWITCHML_INTERFACE": "lo", "SWITCHML_TRANSPORT": "udp", "SWITCHML_PRECISION": "integer", **more}
    return reducing_rank.run_ranks(network, f"reference{size}", [None] * size, settings_of_all)


def test_one_switch_gives_the_bits_of_the_embedded_one(tmp_path):
    with Controlled(tmp_path) as network:
        agent, address = network.switch("solo")
        at = network.controller("switches:\n" + described("solo", agent, address))
        payload = {"SWITCHML_PAYLOAD": "1024"}
        got = reducing_rank.run_ranks(network, "ours", [None] * 3, settings(at, **payload))
        sharded = reducing_rank.run_ranks(network, "sharded", [None] * 3, settings(at, SWITCHML_SHARDS="3", **payload))
        expected = embedded(network, 3, **payload)
    reducing_rank.assert_same(got, expected)
    reducing_rank.assert_same(sharded, expected)
    assert got[0]["stats"]["session"]["switch"] == f"{address} (of controller {at})"


def rank_switch():
    import switchml

    return switchml.stats()["session"]["switch"]


def test_a_group_returns_to_its_switch_through_the_controller(tmp_path):
    """The switch is started again where it was; then elsewhere, and the controller too, which knows where."""
    with Controlled(tmp_path) as network:
        agent, address = network.switch("solo")
        switch = network.processes[-1]
        at = network.controller("switches:\n" + described("solo", agent, address))
        controller = network.processes[-1]
        with doomed_pool(3, environment={**settings(at), **FALLBACK}) as own:
            own.run(rank_warm_up)
            network.kill(switch)
            assert len(set(own.run(rank_sums_until, 1, 0))) == 1
            network.switch("solo", address, agent)
            switch = network.processes[-1]
            assert len(set(own.run(rank_sums_until, 0, 0))) == 1
            network.kill(switch)
            network.kill(controller)
            assert len(set(own.run(rank_sums_until, 1, 10))) == 1
            agent, address = network.switch("elsewhere")
            network.controller("switches:\n" + described("elsewhere", agent, address), at)
            assert len(set(own.run(rank_sums_until, 0, 10))) == 1
            assert own.run(rank_switch) == [f"{address} (of controller {at})"] * 3
            own.close()


def test_a_group_ends_while_it_asks_a_controller_in_vain(tmp_path):
    """What would keep it is longer than the pool's patience."""
    with Controlled(tmp_path) as network:
        agent, address = network.switch("solo")
        switch = network.processes[-1]
        at = network.controller("switches:\n" + described("solo", agent, address))
        with doomed_pool(2, environment={**settings(at), **FALLBACK, "SWITCHML_CONNECT_TIMEOUT": "600"}) as own:
            own.run(rank_warm_up)
            network.kill(switch)
            network.kill(network.processes[-1])
            own.run(rank_sums_until, 1, 0)
            time.sleep(1)
            own.close()


def check_refused(network, name, values, part, patience=IN_TIME):
    """Every rank is told when the group cannot be made. `patience`: seconds that it is tried for; TIMEOUT where it is
    tried to the end."""
    (network.folder / name).mkdir()
    environment = {"SWITCHML_CONNECT_TIMEOUT": str(patience), **values}
    check_all(open_on_each(network.folder / name, 2, [environment] * 2), part)


@contextlib.contextmanager
def holding(values):
    """A group of two that is made and used, with these settings; what it says its switch is."""
    with doomed_pool(2, environment={"SWITCHML_CONNECT_TIMEOUT": str(IN_TIME), **values}) as own:
        own.run(rank_warm_up)
        yield own.run(rank_switch)[0]
        own.close()


def test_refusals_reach_every_rank(tmp_path):
    with Controlled(tmp_path) as network:
        agent, address = network.switch("solo")
        at = network.controller("switches:\n" + described("solo", agent, address))
        check_refused(network, "stranger", settings(at, "guess"), "refuses")
        missing = "controller 127.0.0.1:1 does not answer"
        check_refused(network, "nobody", settings("127.0.0.1:1"), missing, TIMEOUT)
        direct = {"SWITCHML_SWITCH": address, "SWITCHML_TRANSPORT": "udp"}
        check_refused(network, "direct", direct, f"switch {address} is run by a controller: set SWITCHML_CONTROLLER")
        with holding(settings(at)):  # the session of a team that may have one
            check_refused(network, "second", settings(at), '"team" has 1 jobs; max_jobs allows 1', TIMEOUT)
            with holding(settings(at, "let-the-others-in-too")):
                pass


def test_a_controller_that_wants_certificates(tmp_path):
    harness.make_certificate(tmp_path, "server-")
    harness.make_certificate(tmp_path, "worker-")
    with Controlled(tmp_path) as network:
        agent, address = network.switch("solo")
        tls = ("--tls-cert", tmp_path / "server-cert.pem", "--tls-key", tmp_path / "server-key.pem", "--tls-client-ca",
               tmp_path / "worker-cert.pem")  # fmt: skip
        at = network.controller("switches:\n" + described("solo", agent, address), "127.0.0.1:0", None, TOKENS, *tls)
        ca = {"SWITCHML_CONTROLLER_CA": str(tmp_path / "server-cert.pem")}
        shown = {
            f"SWITCHML_CONTROLLER_{name}": str(tmp_path / f"worker-{name.lower()}.pem") for name in ("CERT", "KEY")
        }
        with holding(settings(at, **ca, **shown)) as switch:
            assert switch == f"{address} (of controller {at})"
        missing = "does it ask for a certificate (SWITCHML_CONTROLLER_CERT and _KEY are not set)?"
        check_refused(network, "missing", settings(at, **ca), missing, TIMEOUT)
        half = 'SWITCHML_CONTROLLER_KEY="key.pem" is not allowed: use it together with SWITCHML_CONTROLLER_CERT'
        check_refused(network, "half", settings(at, **ca, SWITCHML_CONTROLLER_KEY="key.pem"), half)


def rank_sums_of_all_sizes():
    """With a switch of integers and the ranks themselves beside it: nothing is left to Gloo."""
    import switchml

    before = switchml.stats()
    assert before["session"]["precision"] == "mixed"
    for dtype, name in itertools.product((*FLOATS, *INTEGERS), OPERATIONS):
        if name == "PREMUL_SUM" or name.startswith("B" if dtype in FLOATS else "AVG"):
            continue
        for length in (0, 1, reducing_rank.FEW, reducing_rank.FEW + 1, 30000):
            inputs = [
                values((length,), dtype, rank, length, small=name == "PRODUCT") for rank in range(dist.get_world_size())
            ]
            mine = inputs[dist.get_rank()].clone()
            dist.all_reduce(mine, operation(name))
            check_reduction(mine, inputs, name)
    metrics = torch.tensor([0.693, 3.2e9, 1e-30])
    dist.all_reduce(metrics)
    assert torch.equal(metrics, (torch.tensor([0.693, 3.2e9, 1e-30]).double() * dist.get_world_size()).float())
    mean = values((reducing_rank.FEW,), torch.float32, 0, 5)
    replica = mean.clone()
    dist.all_reduce(mean, operation("AVG"))
    assert torch.equal(mean, replica), "the mean of identical replicas is the replica"
    after = switchml.stats()
    assert after["elements_summed_by_switch"] > before["elements_summed_by_switch"]


@pytest.mark.parametrize("transport", ("auto", "udp"))
def test_sums_beside_a_switch_of_integers(transport):
    with one_switch(SWITCHML_PRECISION="auto", SWITCHML_TRANSPORT=transport) as mixed:
        with harness.fresh_pool(3, environment=mixed) as own:
            own.run(rank_sums_of_all_sizes)
            own.close()


def rank_calls(lengths):
    """What this rank is told of a sum whose length the others may see differently."""
    return harness.caught(dist.all_reduce, torch.ones(lengths[dist.get_rank()]))


@pytest.mark.parametrize("lengths", ((5, 30000, 30000), (30000, 0, 30000)), ids=str)
def test_ranks_that_disagree_about_who_adds_are_told(lengths):
    with one_switch(SWITCHML_PRECISION="auto") as mixed, doomed_pool(3, environment=mixed) as own:
        own.run(rank_warm_up)
        for text in own.run(rank_calls, lengths):
            for length in lengths:
                assert f" called call 2: all_reduce(SUM, float32, {length} elements)" in text, text


def rank_sums_until_it_fails(length):
    for _ in range(1000000):
        harness.advance()
        text = harness.caught(dist.all_reduce, torch.ones(length))
        if text:
            return text
    raise AssertionError("nothing ever failed")


@pytest.mark.parametrize("length", (100, 100000))
@pytest.mark.parametrize("transport", ("auto", "udp"))
def test_a_killed_rank_is_named_beside_a_switch_of_integers(length, transport):
    with (
        one_switch(SWITCHML_PRECISION="auto", SWITCHML_TRANSPORT=transport) as mixed,
        doomed_pool(3, environment=mixed) as own,
    ):
        own.start(rank_sums_until_it_fails, length)
        own.await_progress(5)
        own.kill(2)
        for text in own.finish(ranks=[0, 1]):
            assert "rank 2 " in text, text


def rank_sums_while_told(flag):
    """Sums of both kinds until the test has put the file there; how many there were."""
    done, count = torch.zeros(1), 0
    while not done:
        harness.advance()
        dist.all_reduce(torch.ones(30000))
        done = torch.tensor([float(os.path.exists(flag))])
        dist.all_reduce(done)
        count += 1
    return count


def test_a_stopped_host_costs_time_only_beside_a_switch_of_integers(tmp_path):
    """Rank 0 has what adds exactly; it is silent for longer than a switch may be."""
    # 3 s: of one, the kernel takes a connection for dead over a single second in which the machine stood still.
    settings_of_all = {"SWITCHML_PRECISION": "auto", "SWITCHML_FAILURE_TIMEOUT": "3"}
    with one_switch(**settings_of_all) as mixed, doomed_pool(3, environment=mixed) as own:
        own.start(rank_sums_while_told, str(tmp_path / "over"))
        own.await_progress(5)
        own.kill(0, signal.SIGSTOP)
        time.sleep(7)
        own.kill(0, signal.SIGCONT)
        (tmp_path / "over").touch()
        assert len(set(own.finish())) == 1
        own.close()


class Tree(Controlled):
    """Two hosts with two ranks and a leaf each, a root and the controller in between. The ranks' addresses tell the
    controller which leaf is theirs. `integers`: the first leaf adds these only."""

    def __init__(self, folder, integers=False, switch_options=()):
        super().__init__(folder)
        self.integers, self.switch_options = integers, switch_options
        try:
            self.build()
        except BaseException:
            self.close()
            raise

    def build(self):
        self.core = core = self.namespace("core")
        self.address(core, "lo", "10.79.0.1/32")
        self.do(core, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
        self.hosts = []
        for number in (1, 2):
            host = self.namespace(f"host{number}")
            self.link(core, f"to{number}", host, "eth0", mtu=9000)
            self.address(core, f"to{number}", f"10.79.{number}.254/24")
            self.address(host, "eth0", f"10.79.{number}.1/24")
            self.do(host, "ip", "route", "add", "default", "via", f"10.79.{number}.254")
            self.hosts.append(host)
        topology = "switches:\n"
        agent, address = self.switch("root", "10.79.0.1:48879", "10.79.0.1:50052", core)
        topology += described("root", agent, address)
        for number, host in enumerate(self.hosts, 1):
            agent, address = self.switch(f"leaf{number}", f"10.79.{number}.1:48879", f"10.79.{number}.1:50052", host,
                                         self.integers and number == 1)  # fmt: skip
            topology += described(f"leaf{number}", agent, address, "    parent: root\n    mtu: 9000\n")
        topology += "workers:\n"
        for number in (1, 2):
            topology += f"  - name: host{number}\n    addresses: [10.79.{number}.1]\n    switch: leaf{number}\n"
        self.at = self.controller(topology, "10.79.0.1:50051", core)
        self.where = [self.hosts[0]] * 2 + [self.hosts[1]] * 2

    def reduce(self, name, where=None, **more):
        values = {"SWITCHML_PAYLOAD": "1024", **more}
        return reducing_rank.run_ranks(self, name, where or self.where, settings(self.at, **values))

    def drop(self, hook, packets):
        """The root's host loses such packets of those that arrive (hook input) or leave (output)."""
        self.do(self.core, "nft", "add", "table", "ip", "loss")
        self.do(self.core, "nft", "add", "chain", "ip", "loss", hook, f"{{ type filter hook {hook} priority 0; }}")
        self.do(self.core, "nft", "add", "rule", "ip", "loss", hook, *packets.split(), "counter", "drop")

    def dropped(self):
        """By rule."""
        rules = self.do(self.core, "nft", "list", "table", "ip", "loss")
        return [
            int(line.split("counter packets ")[1].split()[0])
            for line in rules.splitlines()
            if "counter packets" in line
        ]

    def plan(self):
        """Two shares for both hosts."""
        from switchml_agent import api

        import grpc

        share = api.messages.PlannedShare
        switch = api.messages.PlannedSwitch
        leaves = [switch(name=f"leaf{n}", parent="root", mtu=9000) for n in (1, 2)]
        shares = [
            share(weight=3, switches=[switch(name="root"), *leaves], switch_of={"host1": "leaf1", "host2": "leaf2"}),
            share(weight=1, switches=[switch(name="root")], switch_of={"host1": "root", "host2": "root"}),
        ]
        request = api.messages.SetPlanRequest(workers=["host1", "host2"], shares=shares)
        with lab.inside(self.core), grpc.insecure_channel(self.at) as channel:
            api.Stub("Controller", channel).SetPlan(request, metadata=api.bearer("plans-for-all-of-them"), timeout=20)

    def state(self):
        token = write(self.folder / "token", "open-sesame-of-the-team")
        return self.do(self.core, lab.program("switchml-controller"), "--state", self.at, "--token-file", token)


@pytest.mark.skipif(bool(lab.missing()), reason=lab.missing())
def test_a_tree_of_three_switches_between_hosts(tmp_path):
    with Tree(tmp_path) as network:
        got = network.reduce("tree")
        under_loss = network.reduce("lossy", SWITCHML_FAULTS="seed=3,send_loss=0.02,receive_loss=0.02,duplicate=0.02")
        alone = network.reduce("alone", [network.hosts[1]] * 2)
        wide = network.reduce("wide", SWITCHML_PAYLOAD="64512")
        expected = embedded(network, 4, SWITCHML_PAYLOAD="1024")
        pair = embedded(network, 2, SWITCHML_PAYLOAD="1024")
        state = network.state()
    reducing_rank.assert_same(got, expected)
    reducing_rank.assert_same(under_loss, expected)
    reducing_rank.assert_same(alone, pair)
    assert [rank["stats"]["session"]["switch"].split()[0] for rank in got] == [
        "10.79.1.1:48879", "10.79.1.1:48879", "10.79.2.1:48879", "10.79.2.1:48879"]  # fmt: skip
    assert [rank["stats"]["session"]["payload_bytes"] for rank in wide] == [8192] * 4, "what the uplinks take whole"
    for name in ("root", "leaf1", "leaf2"):
        assert name in state


@pytest.mark.skipif(bool(lab.missing()), reason=lab.missing())
def test_hosts_add_beside_a_tree_what_is_small(tmp_path):
    """One switch adds integers only. Large sums have the bits of integers, and small ones those of hosts that add
    without any switch."""
    with Tree(tmp_path, integers=True) as network:
        got = network.reduce("mixed", SWITCHML_PRECISION="auto", SWITCHML_TRANSPORT="auto")
        of_hosts = network.reduce("hosts", SWITCHML_CONTROLLER="", SWITCHML_PRECISION="auto", SWITCHML_TRANSPORT="auto")
        of_integers = embedded(network, 4, SWITCHML_PAYLOAD="1024")
    assert got[0]["stats"]["session"]["precision"] == "mixed"
    reducing_rank.assert_same(got, reducing_rank.mixed(of_integers, of_hosts))


@pytest.mark.skipif(bool(lab.missing()), reason=lab.missing())
def test_a_exact_tree_rounds_as_hosts_of_several_ranks_do(tmp_path):
    """A leaf adds what a host's ranks make together, and the root adds the leaves' sums."""
    exact = {"SWITCHML_PRECISION": "auto", "SWITCHML_TRANSPORT": "auto"}
    with Tree(tmp_path) as network:
        got = network.reduce("exact", **exact)
        under_loss = network.reduce(
            "lossy", **exact, SWITCHML_FAULTS="seed=3,send_loss=0.02,receive_loss=0.02,duplicate=0.02"
        )
        of_hosts = network.reduce("hosts", SWITCHML_CONTROLLER="", **exact)
    for rank in got:
        assert rank["stats"]["session"]["precision"] == "exact"
    reducing_rank.assert_same(got, of_hosts)
    reducing_rank.assert_same(under_loss, of_hosts)


@pytest.mark.skipif(bool(lab.missing()), reason=lab.missing())
def test_with_the_precision_exact_a_tree_has_the_bits_of_memory(tmp_path):
    """[PART-1, PART-8] So have ranks that send by themselves, hosts of several ranks, and shares of a plan."""
    exact = {"SWITCHML_PRECISION": "exact", "SWITCHML_TRANSPORT": "auto"}
    with Tree(tmp_path) as network:
        in_memory = network.reduce("memory", [network.hosts[0]] * 4, SWITCHML_CONTROLLER="", **exact)
        others = {
            "tree": network.reduce("tree", **exact),
            "lossy": network.reduce("lossy", **exact, SWITCHML_FAULTS="seed=3,send_loss=0.02,receive_loss=0.02"),
            "hosts": network.reduce("hosts", SWITCHML_CONTROLLER="", **exact),
            "flat": network.reduce("flat", SWITCHML_CONTROLLER="", **exact | {"SWITCHML_TRANSPORT": "udp"}),
        }
        network.plan()
        others["planned"] = network.reduce("planned", **exact)
    assert in_memory[0]["stats"]["session"]["transport"] == "shm"
    for got in others.values():
        reducing_rank.assert_same(got, in_memory)


@pytest.mark.skipif(bool(lab.missing()), reason=lab.missing())
def test_all_collectives_pass_a_exact_tree(tmp_path):
    """Results that some want and others do not, contributions with and without elements, means of float16."""
    with Tree(tmp_path) as network:
        ranks = {
            f"moves-{rank}": network.start(f"moves-{rank}", sys.executable, "-c", MOVES, tmp_path / "moves.store", rank,
                                           namespace=host, **settings(network.at, SWITCHML_PRECISION="auto"))
            for rank, host in enumerate(network.where)
        }  # fmt: skip
        network.finish(ranks, 2 * lab.PATIENCE)
        logs = [network.log(f"moves-{rank}") for rank in range(4)]
    assert all("all of it by switches: True" in log for log in logs), logs


@pytest.mark.skipif(bool(lab.missing()), reason=lab.missing())
@pytest.mark.parametrize("precision", ("auto", "integer"))
def test_shares_of_a_plan_go_over_their_own_trees(tmp_path, precision):
    """Three quarters of each tensor by the topology's tree; a quarter straight to the root, where the first share ends,
    too: two sessions at one switch."""
    own = {"SWITCHML_PRECISION": precision, "SWITCHML_TRANSPORT": "auto" if precision == "auto" else "udp"}
    with Tree(tmp_path) as network:
        before = network.reduce("before", **own)
        network.plan()
        got = network.reduce("planned", **own)
        under_loss = network.reduce("lossy", **own, SWITCHML_FAULTS="seed=3,send_loss=0.02,receive_loss=0.02")
        state = network.state()
    reducing_rank.assert_same(got, under_loss)
    if precision == "integer":
        reducing_rank.assert_same(got, before)
    assert [rank["stats"]["session"]["switch"] for rank in got] == [
        f"10.79.{leaf}.1:48879 (of controller {network.at}), 10.79.0.1:48879 (of controller {network.at})"
        for leaf in (1, 1, 2, 2)
    ]
    passed = {line.split()[2].rstrip(","): line for line in state.splitlines() if line.startswith("counters of ")}
    assert all(name in passed for name in ("root", "leaf1", "leaf2"))


MOVES = """
import sys, torch, torch.distributed as dist, switchml
rank = int(sys.argv[2])
dist.init_process_group("switchml", init_method="file://" + sys.argv[1], rank=rank, world_size=4)
for length in (1, 700, 30000):
    inputs = [torch.arange(length) * (r + 1) for r in range(4)]
    for root in range(4):
        mine = inputs[rank].clone()
        dist.broadcast(mine, root)
        assert torch.equal(mine, inputs[root])
        mine = inputs[rank].clone()
        dist.reduce(mine, root)
        assert rank != root or torch.equal(mine, sum(inputs))
        pieces = [torch.zeros_like(mine) for _ in range(4)]
        dist.gather(inputs[rank], pieces if rank == root else None, root)
        assert rank != root or all(torch.equal(*pair) for pair in zip(pieces, inputs))
        dist.scatter(mine, inputs if rank == root else None, root)
        assert torch.equal(mine, inputs[rank])
    dist.all_gather(pieces, inputs[rank])
    assert all(torch.equal(*pair) for pair in zip(pieces, inputs))
    dist.reduce_scatter(mine, [i + inputs[rank] for i in range(4)])
    assert torch.equal(mine, sum(inputs) + 4 * rank)
    large = torch.full((length,), 60000.0, dtype=torch.float16)
    dist.all_reduce(large, dist.ReduceOp.AVG)
    assert torch.equal(large, torch.full_like(large, 60000.0)), "the sum is beyond float16"
dist.barrier()
print("all of it by switches:", switchml.stats()["calls_peers"] == 0)
"""


@pytest.mark.skipif(bool(lab.missing("nft")), reason=lab.missing("nft"))
def test_what_is_lost_between_switches_is_repeated(tmp_path):
    with Tree(tmp_path) as network:
        network.drop("input", "udp dport 48879 numgen inc mod 8 == 3")
        network.drop("output", "udp sport 48879 numgen inc mod 8 == 3")
        got = network.reduce("lossy")
        dropped = network.dropped()
        expected = embedded(network, 4, SWITCHML_PAYLOAD="1024")
    reducing_rank.assert_same(got, expected)
    assert len(dropped) == 2 and min(dropped) > 0, "aggregates and results were lost"


@pytest.mark.skipif(bool(lab.missing("nft")), reason=lab.missing("nft"))
def test_ranks_below_a_broken_path_are_named(tmp_path):
    with Tree(tmp_path) as network:
        network.drop("input", "ip saddr 10.79.2.1 udp dport 48879")
        ranks = {
            f"stuck-{rank}": network.start(f"stuck-{rank}", sys.executable, "-c", STUCK, tmp_path / "stuck.store", rank,
                                           namespace=host, **settings(network.at))
            for rank, host in enumerate(network.where)
        }  # fmt: skip
        network.finish(ranks, 2 * lab.PATIENCE)
        logs = [network.log(f"stuck-{rank}") for rank in range(4)]
        told = network.log("controller")
    for log in logs:
        assert "no contribution from rank 2, 3 " in log
    assert 'switch "leaf2" has aggregated slot ' in told
    assert 'and its parent "root" has nothing of it: check the path from 10.79.2.1:48879 to 10.79.0.1:48879' in told
    assert 'switch "leaf1" has aggregated' not in told


STUCK = """
import datetime, os, pathlib, sys, time, torch, torch.distributed as dist, switchml
pathlib.Path(sys.argv[1] + sys.argv[2]).touch()
while not all(os.path.exists(sys.argv[1] + str(rank)) for rank in range(4)):  # others take seconds to begin
    time.sleep(0.01)
dist.init_process_group("switchml", init_method="file://" + sys.argv[1], rank=int(sys.argv[2]), world_size=4,
                        timeout=datetime.timedelta(seconds=6))
try:
    dist.all_reduce(torch.ones(100))
except Exception as error:  # a TimeoutError in old versions of PyTorch
    print(error, flush=True)
"""


def write(path, text):
    path.write_text(text + "\n")
    return path


def test_the_topology_is_checked_before_anything_starts(tmp_path):
    (tmp_path / "bad.yaml").write_text("switches:\n  - name: a\n    agent: 127.0.0.1:1\n    address: nowhere\n")
    command = [lab.program("switchml-controller"), "--topology", str(tmp_path / "bad.yaml"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=30)
    assert done.returncode == 2
    assert "bad.yaml:4: " in done.stderr and "nowhere" in done.stderr
