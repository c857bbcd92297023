"""Hosts with the addresses, names and firewalls that hosts have: a group opens and every call between its hosts works,
or all ranks have one message that says what is wrong; and the doctor says the same."""

import json
import pathlib
import subprocess
import sys

import pytest

import lab

PORT = 29400
LOCALHOST = "127.0.0.1 localhost\n"


class Network(lab.Lab):
    """Hosts around one bridge, and the process that their ranks are forked from."""

    def __init__(self, folder):
        super().__init__(folder)
        self.jobs = 0
        self.ranks = self.start("ranks", sys.executable, pathlib.Path(__file__).with_name("namespaced.py"),
                                stdin=subprocess.PIPE)  # fmt: skip

    def host(self, name, *addresses, device="eth0", bridge=None):
        """A namespace; a device of it is on the bridge, if there is one."""
        made = self.namespace(name)
        self.do(made, "sysctl", "-q", "-w", "net.ipv6.conf.all.disable_ipv6=0", "net.ipv6.conf.default.disable_ipv6=0")
        if bridge:
            self.link(bridge, name, made, device)
            self.do(bridge, "ip", "link", "set", name, "master", "bridge")
        for address in addresses:
            self.give(made, device, address)
        return made

    def give(self, host, device, address):
        self.do(host, "ip", "address", "add", address, "dev", device, *(["nodad"] if ":" in address else []))

    def run(self, hosts, master, names="", **settings):
        """What each rank says; a host's name is the end of its namespace's."""
        self.jobs += 1
        ranks = []
        for rank, host in enumerate(hosts):
            environment = {"MASTER_ADDR": master, "MASTER_PORT": str(PORT + 2 * self.jobs), "RANK": str(rank),
                           "WORLD_SIZE": str(len(hosts)), **settings}  # fmt: skip
            name = host.rpartition("-")[2]
            text = LOCALHOST + (names(name) if callable(names) else names)
            ranks.append({"namespace": host, "name": name, "hosts": text, "environment": environment})
        after = len(self.log("ranks"))
        self.ranks.stdin.write(json.dumps({"number": self.jobs, "ranks": ranks}).encode() + b"\n")
        self.ranks.stdin.flush()
        said = json.loads(self.await_line("ranks", self.ranks, f"job {self.jobs} ", after))
        for rank, each in enumerate(said):
            print(f"rank {rank}: {json.dumps(each, indent=1)}")
        print(log := self.log("ranks")[after:])
        return said, log


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    if why := lab.missing("nft"):
        pytest.skip(why)
    with Network(tmp_path_factory.mktemp("addresses")) as made:
        yield made


@pytest.fixture
def bridge(network):
    """All that a test makes ends with it."""
    before = len(network.namespaces)
    yield network.make_bridge("b")
    for name in network.namespaces[before:]:
        lab.run("ip", "netns", "del", name)
    del network.namespaces[before:]


def expect_addresses(said, *addresses):
    """The group opened, everything was right, and each rank's host was reached there."""
    for rank, each in enumerate(said):
        assert "session" in each, each
        assert not each["session"]["wrong"], each
        assert each["session"]["address"] == addresses[rank], each
        assert each["status"] == 0, each
    assert "FAIL" not in said[0]["doctor"], said[0]["doctor"]


def expect_error(said, *parts):
    """On all ranks, and from the doctor, of whom rank 0 speaks for all."""
    for each in said:
        assert each["status"] == 1, each
        for text in (each.get("error", ""), said[0]["doctor"]):
            assert "switchml-switchd" not in text
            for part in parts:
                assert part in text, f"{part}: {text}"


def test_a_hosts_own_name_is_127_0_1_1(network, bridge):
    """As Debian and Ubuntu have it."""
    hosts = [network.host(f"host{i}", f"10.81.0.{i + 1}/24", bridge=bridge) for i in range(2)]

    def names(own):
        return f"127.0.1.1 {own}\n" + "".join(f"10.81.0.{i + 1} host{i}\n" for i in range(2) if own != f"host{i}")

    said, _ = network.run(hosts, "host0", names)
    expect_addresses(said, "10.81.0.1", "10.81.0.2")


def test_docker_is_first_and_there_is_no_default_route(network, bridge):
    hosts = [network.host(f"host{i}") for i in range(2)]
    for i, host in enumerate(hosts):
        network.do(host, "ip", "link", "add", "docker0", "type", "bridge")
        network.do(host, "ip", "link", "set", "docker0", "up")
        network.give(host, "docker0", "172.17.0.1/16")
        network.link(bridge, f"host{i}", host, "eth0")
        network.do(bridge, "ip", "link", "set", f"host{i}", "master", "bridge")
        network.give(host, "eth0", f"10.81.0.{i + 1}/24")
    said, _ = network.run(hosts, "10.81.0.1")
    expect_addresses(said, "10.81.0.1", "10.81.0.2")


def test_the_default_route_is_a_network_in_which_all_are_alike(network, bridge):
    """As VirtualBox has it, with another network between the hosts."""
    hosts = [network.host(f"host{i}", f"192.168.56.{i + 3}/24", bridge=bridge) for i in range(2)]
    for host in hosts:
        network.do(host, "ip", "link", "add", "nat0", "type", "bridge")
        network.do(host, "ip", "link", "set", "nat0", "up")
        network.give(host, "nat0", "10.0.2.15/24")
        network.do(host, "ip", "route", "add", "default", "via", "10.0.2.2")
    said, _ = network.run(hosts, "192.168.56.3")
    expect_addresses(said, "192.168.56.3", "192.168.56.4")
    said, _ = network.run(hosts, "192.168.56.3", SWITCHML_INTERFACE="nat0")
    expect_error(said, "rank 0, rank 1 are on different hosts", "10.0.2.15", "SWITCHML_INTERFACE")


def test_twins_behind_nat(network, bridge):
    """Two hosts that reach rank 0 by translation, and have one address."""
    hosts = [network.host("host0", "10.81.0.1/24", bridge=bridge)]
    for i in (1, 2):
        router = network.host(f"router{i}", f"10.81.0.{i + 1}/24", bridge=bridge)
        hosts.append(network.host(f"host{i}"))
        network.link(router, "inside", hosts[i], "eth0")
        network.give(router, "inside", "10.0.2.2/24")
        network.give(hosts[i], "eth0", "10.0.2.15/24")
        network.do(hosts[i], "ip", "route", "add", "default", "via", "10.0.2.2")
        network.do(router, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
        network.do(router, "nft", "add table ip n; add chain ip n p { type nat hook postrouting priority 100; };"
                   "add rule ip n p oifname eth0 masquerade")  # fmt: skip
    said, _ = network.run(hosts, "10.81.0.1")
    expect_error(said, "rank 1, rank 2 are on different hosts", "10.0.2.15", "SWITCHML_INTERFACE")


def test_a_host_of_ipv6_alone_and_one_of_both(network, bridge):
    hosts = [
        network.host("host0", "10.81.0.1/24", "fd00::1/64", bridge=bridge),
        network.host("host1", "fd00::2/64", bridge=bridge),
    ]
    said, _ = network.run(hosts, "master", "10.81.0.1 master\nfd00::1 master\n")
    expect_addresses(said, "fd00::1", "fd00::2")


def test_hosts_that_have_no_family_in_common(network, bridge):
    """All of them reach the store, whose host has both."""
    hosts = [
        network.host("host0", "10.81.0.1/24", "fd00::1/64", bridge=bridge),
        network.host("host1", "fd00::2/64", bridge=bridge),
        network.host("host2", "10.81.0.3/24", bridge=bridge),
    ]
    said, _ = network.run(hosts, "master", "10.81.0.1 master\nfd00::1 master\n")
    expect_error(said, "no family of addresses in common", "rank 1 has fd00::2;", "rank 2 has 10.81.0.3")


def test_link_local_addresses_alone(network, bridge):
    hosts = [network.host(f"host{i}", f"fe80::{i + 1}/64", bridge=bridge) for i in range(2)]
    said, _ = network.run(hosts, "fe80::1%eth0")
    expect_error(said, "rank 0 has none but loopback and link-local ones", "Give each host an IPv4 address")


def test_an_address_of_lo(network, bridge):
    """As where hosts announce it by a routing protocol."""
    hosts = [network.host(f"host{i}", f"10.81.0.{i + 1}/24", bridge=bridge) for i in range(2)]
    for i, host in enumerate(hosts):
        network.give(host, "lo", f"10.99.0.{i + 1}/32")
        network.do(host, "ip", "route", "add", f"10.99.0.{2 - i}", "via", f"10.81.0.{2 - i}", "src",
                   f"10.99.0.{i + 1}")  # fmt: skip
    said, _ = network.run(hosts, "10.99.0.1")
    expect_addresses(said, "10.99.0.1", "10.99.0.2")


@pytest.mark.parametrize("transport", ("auto", "udp"))
def test_udp_is_blocked(network, bridge, transport):
    hosts = [network.host(f"host{i}", f"10.81.0.{i + 1}/24", bridge=bridge) for i in range(2)]
    network.do(hosts[1], "nft", "add table ip f; add chain ip f i { type filter hook input priority 0; };"
               "add rule ip f i iifname eth0 udp dport 1-65535 drop")  # fmt: skip
    if transport == "udp":
        said, _ = network.run(hosts, "10.81.0.1", SWITCHML_TRANSPORT="udp", SWITCHML_CONNECT_TIMEOUT="2")
        expect_error(said, "does not answer: does UDP pass between the hosts")
        assert "FAIL  rank 0: rank 1 at 10.81.0.2: TCP arrives, UDP does not" in said[0]["doctor"]
        return
    said, log = network.run(hosts, "10.81.0.1")
    expect_addresses(said, "10.81.0.1", "10.81.0.2")
    assert [each["session"]["transport"] for each in said] == ["tcp", "tcp"]
    assert log.count("UDP does not pass from rank 0 to ") == 2, "once for the rank's group, and once for the doctor's"
    assert "warn  rank 0: rank 1 at 10.81.0.2: TCP arrives, UDP does not" in said[0]["doctor"]


def test_an_mtu_black_hole(network, bridge):
    """Between the hosts less passes than they know of, and they are not told."""
    router = network.host("router", "10.81.0.254/24", bridge=bridge)
    hosts = [network.host("host0", "10.81.0.1/24", bridge=bridge), network.host("host1")]
    network.link(router, "behind", hosts[1], "eth0")
    network.do(router, "ip", "link", "set", "behind", "mtu", "1200")
    network.give(router, "behind", "10.82.0.254/24")
    network.give(hosts[1], "eth0", "10.82.0.1/24")
    for host, gateway in zip(hosts, ("10.81.0.254", "10.82.0.254")):
        network.do(host, "ip", "route", "add", "default", "via", gateway)
    network.do(router, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
    network.do(router, "nft", "add table ip f; add chain ip f o { type filter hook output priority 0; };"
               "add rule ip f o icmp type destination-unreachable drop")  # fmt: skip
    said, _ = network.run(hosts, "10.81.0.1")
    expect_addresses(said, "10.81.0.1", "10.82.0.1")
    assert "datagrams of 548 bytes at most arrive unfragmented" in said[0]["doctor"], said[0]["doctor"]
