"""A hop in the middle that carries less than the hosts' own links: the payload is what passes in one packet, both ways.

    rank 0: data --- r0 |
                        | near: narrow --- narrow :far | switch --- data: switchml-switchd
    rank 1: data --- r1 |

All links carry packets of 9000 bytes but the one in the middle.
"""

import lab
import pytest
import star

JUMBO = 9000
GENEROUS = 120.0  # seconds for whatever must come, on a busy machine


class Family:
    def __init__(self, version, net, bits, headers):
        self.version, self.net, self.bits, self.headers = version, net, bits, headers

    def address(self, net, host):
        return f"{self.net}{net}{'.' if self.version == 4 else '::'}{host}"

    def at_port(self, address):
        return f"{address}:{star.PORT}" if self.version == 4 else f"[{address}]:{star.PORT}"


V4, V6 = Family(4, "10.80.", 24, 28), Family(6, "fd00:80:0:", 64, 48)


class Hops(lab.Lab):
    """middle: bytes that the link in the middle carries; silent: its routers tell nobody; only_back: it is narrow for
    results alone."""

    def __init__(self, folder, family, middle=JUMBO, silent=False, only_back=False):
        super().__init__(folder)
        self.family = family
        try:
            self.near, self.far = self.namespace("near"), self.namespace("far")
            self.hosts = [self.host(f"r{rank}", self.near, rank) for rank in range(2)]
            self.switch = self.host("switch", self.far, 9)
            self.middle(middle, only_back)
            if silent:
                self.silence()
            self.settings = {"SWITCHML_INTERFACE": "data",
                             "SWITCHML_SWITCH": family.at_port(family.address(9, 2))}  # fmt: skip
            self.switchd = self.start(
                "switchd",
                lab.program("switchml-switchd"),
                "--listen",
                self.settings["SWITCHML_SWITCH"],
                namespace=self.switch,
            )
            self.await_line("switchd", self.switchd, "listening on ")
        except BaseException:
            self.close()
            raise

    def namespace(self, name):
        whole = super().namespace(name)
        self.do(
            whole,
            "sysctl",
            "-q",
            "-w",
            "net.ipv6.conf.all.disable_ipv6=0",
            "net.ipv6.conf.default.disable_ipv6=0",
            "net.ipv6.conf.default.accept_dad=0",
            "net.ipv4.ip_forward=1",
            "net.ipv6.conf.all.forwarding=1",
        )
        return whole

    def addresses(self, namespace, device, net, host, families=(V4, V6)):
        for family in families:
            extra = ["nodad"] if family is V6 else []
            self.do(
                namespace, "ip", "address", "add", f"{family.address(net, host)}/{family.bits}", "dev", device, *extra
            )

    def route(self, namespace, to, via, *more, families=(V4, V6)):
        for family in families:
            target = f"{family.address(to, 0)}/{family.bits}" if to is not None else "default"
            self.do(
                namespace, "ip", f"-{family.version}", "route", "replace", target, "via", family.address(*via), *more
            )

    def host(self, name, router, net):
        host = self.namespace(name)
        self.link(router, name, host, "data", JUMBO)
        self.addresses(router, name, net, 1)
        self.addresses(host, "data", net, 2)
        self.route(host, None, (net, 1))
        return host

    def middle(self, mtu, only_back):
        """Of the switch's family alone: there is no IPv6 below 1280 bytes. Gloo's IPv4 connections do not come here."""
        own = {"families": (self.family,)}
        self.link(self.near, "narrow", self.far, "narrow", JUMBO if only_back else mtu)
        self.addresses(self.near, "narrow", 50, 1, **own)
        self.addresses(self.far, "narrow", 50, 2, **own)
        self.route(self.near, 9, (50, 2), **own)
        for net in range(len(self.hosts)):
            self.route(self.far, net, (50, 1), *(["mtu", "lock", mtu] if only_back else []), **own)

    def silence(self):
        if why := lab.missing("nft"):
            pytest.skip(f"routers that say nothing: {why}")
        for router in (self.near, self.far):
            self.do(
                router,
                "nft",
                "add table inet quiet; add chain inet quiet out { type filter hook output priority 0; }; "
                "add rule inet quiet out icmp type destination-unreachable drop; "
                "add rule inet quiet out icmpv6 type packet-too-big drop",
            )

    def fragments(self):
        """Made anywhere."""
        return sum(self.counter(namespace) for namespace in (*self.hosts, self.switch, self.near, self.far))

    def counter(self, namespace):
        lines = self.do(namespace, "cat", "/proc/net/snmp").splitlines()
        names, values = (line.split() for line in lines if line.startswith("Ip:"))
        six = dict(
            line.split()
            for line in self.do(namespace, "cat", "/proc/net/snmp6").splitlines()
            if line.startswith("Ip6Frag")
        )
        return int(values[names.index("FragCreates")]) + int(six["Ip6FragCreates"])


@pytest.fixture
def hops(tmp_path):
    networks = []

    def make(*arguments, **more):
        networks.append(Hops(tmp_path, *arguments, **more))
        return networks[-1]

    yield make
    for network in networks:
        network.close()


CASES = [
    (V4, {}, 8192),
    (V4, {"middle": 1500}, 1408),
    (V4, {"middle": 1450}, 1280),
    (V4, {"middle": 1500, "silent": True}, 1408),
    (V4, {"middle": 4200, "silent": True}, 4096),
    (V4, {"middle": 1000}, 512),
    (V4, {"middle": 1500, "only_back": True}, 1408),
    (V4, {"middle": 1500, "only_back": True, "silent": True}, 1408),
    (V6, {}, 8192),
    (V6, {"middle": 1500}, 1408),
    (V6, {"middle": 4200, "silent": True}, 4096),
]


@pytest.mark.parametrize("family, network, payload", CASES, ids=lambda value: str(getattr(value, "version", value)))
def test_the_payload_is_what_passes_in_one_packet(hops, family, network, payload):  # [PATH-2, PATH-10]
    network = hops(family, **network)
    # Where all passes that the hosts know of, links as fast as these are for TCP.
    transport = "udp" if payload == 8192 else "auto"
    job = star.Job(network, SWITCHML_CONNECT_TIMEOUT=str(2 * GENEROUS), SWITCHML_TRANSPORT=transport)
    opened = job.run(GENEROUS, "session")  # an idle machine needs less than a second, and nobody waits for a timeout
    assert [session["payload_bytes"] for session in opened] == [payload] * 2
    assert [session["transport"] for session in opened] == ["udp"] * 2
    before = network.fragments()
    assert before == 0 or payload < 8192  # only what was tried and did not pass
    ranks = job.run(GENEROUS, "soak", 0.0, 3)
    assert all(rank["witness_failures"] == 0 for rank in ranks), ranks
    assert network.fragments() == before
    job.end()


def test_a_payload_that_the_user_names_may_be_cut_up(hops):  # [PATH-2]
    network = hops(V4, middle=1500)
    job = star.Job(network, SWITCHML_PAYLOAD="8192")
    assert [session["payload_bytes"] for session in job.run(GENEROUS, "session")] == [8192] * 2
    ranks = job.run(GENEROUS, "soak", 0.0, 4)
    assert all(rank["calls"] > 0 for rank in ranks), ranks
    assert network.fragments() > 0
    job.end()
