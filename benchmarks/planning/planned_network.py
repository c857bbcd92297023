"""A planner's topology in network namespaces: each switch forwards IP, each link has a limited rate both ways, and each
aggregator is a switchml-switchd.

W1 ---(3)--- S1 ---(3)--- S3 ---(9)--- PS: switchml-switchd
              |            |
              | (9: contributions)
              A-S1: switchml-switchd

An aggregator that forwards is two namespaces: the router, and behind it the program, whose link takes in contributions
at the aggregator's capacity, and all else at once. Addresses are the topology file's.
"""

import dataclasses
import sys

import lab
import repository
import star
from pinned_routes import neighbours_of, next_hops, pins

sys.path.append(str(repository.ROOT / "tests" / "python"))
import controlled

CONTROLLER = ("controller", "10.0.0.200")  # its namespace, which has a link to the first switch, and its address
CONTROLLER_PORT = 48880
PORT = 48879
PIN = 1000  # preference of a pinned route's rule
# Milliseconds. A window stands before links this slow for longer than the preset allows, and nothing is lost.
RESENDING = {"SWITCHML_RTO_MIN": "1000", "SWITCHML_RTO_MAX": "10000"}
SLOTS = "96"  # of a share, on average: a share of a thirteenth then has no more than its part, 16 being the least
FREELY = "10gbit"
RESULTS = (2, 6)  # kinds of packets: docs/protocol.md
UDP_PAYLOAD = 28  # bytes of IP and UDP before it
TOKEN = "plans-for-all-of-them"


@dataclasses.dataclass(frozen=True)
class Scale:
    """unit: Mbit/s of payload that stand for `of` bit/s of the topology. overhead: bytes on the wire, from Ethernet's
    header on, of a byte of payload."""

    unit: float
    of: float
    overhead: float

    def wire(self, speed):
        """bit/s, as tc counts them."""
        return round(speed / self.of * self.unit * 1e6 * self.overhead)


def device(at, towards, workers):
    """A worker's link has one name at all of them."""
    return "data" if at in workers else f"to-{towards}"


class PlannedNetwork(controlled.Controlled):
    """topology: a planner.Topology. addresses: {node: IPv4 address} of workers and aggregators. text: the topology
    file, which the controller gets as it is."""

    def __init__(self, folder, topology, addresses, text, scale):
        super().__init__(folder)
        self.topology, self.scale, self.pinned = topology, scale, []
        self.addresses = {**addresses, CONTROLLER[0]: CONTROLLER[1]}
        self.spaces, self.daemons = {}, {}
        self.settings = {
            "GLOO_SOCKET_IFNAME": "data",
            "SWITCHML_INTERFACE": "data",
            "SWITCHML_CONTROLLER": f"{CONTROLLER[1]}:{CONTROLLER_PORT}",
            "SWITCHML_CONTROLLER_TOKEN": TOKEN,
            **RESENDING,
            "SWITCHML_SLOTS": SLOTS,
        }
        try:
            self.make_nodes()
            self.make_links()
            self.make_routes()
            self.start_programs(text)
        except BaseException:
            self.close()
            raise

    # ---- what it is made of ----

    def make_nodes(self):
        routers = [name for name, node in self.topology.nodes.items() if node.forwards]
        self.routers = {name: f"10.255.0.{place + 1}" for place, name in enumerate(routers)}
        for name in (*self.topology.nodes, CONTROLLER[0]):
            self.spaces[name] = self.namespace(name)
        for name in self.topology.aggregators:
            self.daemons[name] = self.namespace(f"A-{name}") if name in self.routers else self.spaces[name]
        for name, address in self.routers.items():
            self.do(self.spaces[name], "sysctl", "-q", "-w", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0",
                    "net.ipv4.conf.default.rp_filter=0", "net.ipv4.conf.all.send_redirects=0")  # fmt: skip
            self.address(self.spaces[name], "lo", f"{address}/32")
        self.address(self.spaces[CONTROLLER[0]], "lo", f"{CONTROLLER[1]}/32")
        for name, space in self.daemons.items():
            self.address(space, "lo", f"{self.addresses[name]}/32")

    def make_links(self):
        workers = self.topology.workers
        for link in self.topology.links.values():
            here, there = link.ends
            ends = device(here, there, workers), device(there, here, workers)
            self.link(self.spaces[here], ends[0], self.spaces[there], ends[1])
            for node, name, speed in zip(link.ends, ends, link.speeds):
                self.limit(self.spaces[node], name, speed)
        for name in workers:
            self.address(self.spaces[name], "data", f"{self.addresses[name]}/32")
        self.link(self.spaces[CONTROLLER[0]], "uplink", self.spaces[next(iter(self.routers))], "to-controller")
        for name, space in self.daemons.items():
            if name in self.routers:
                self.link(self.spaces[name], "inside", space, "uplink")
                self.single(space, "uplink")
                self.single(self.spaces[name], "inside")
                self.limit_contributions(self.spaces[name], "inside", self.topology.nodes[name].capacity)

    def single(self, space, name):
        """What is handed over as one burst leaves as the datagrams that it is."""
        self.do(space, "ip", "link", "set", name, "gso_max_segs", 1)

    def limit(self, space, name, speed):
        self.single(space, name)
        lab.run("tc", "-n", space, "qdisc", "add", "dev", name, "root", "tbf", "rate", self.scale.wire(speed),
                "burst", star.BURST, "limit", star.QUEUE)  # fmt: skip

    def limit_contributions(self, space, name, capacity):
        """None: without a bound."""
        if capacity is None:
            return

        def add(what, *words):
            lab.run("tc", "-n", space, what, "add", "dev", name, *words)

        add("qdisc", "root", "handle", "1:", "htb", "default", 2)
        for classid, rate in (("1:1", FREELY), ("1:2", self.scale.wire(capacity))):
            add("class", "parent", "1:", "classid", classid, "htb", "rate", rate, "burst", star.BURST, "quantum", 1514)
            add("qdisc", "parent", classid, "pfifo", "limit", star.QUEUE // 64)
        for kind in RESULTS:
            add("filter", "parent", "1:", "protocol", "ip", "prio", 1, "u32", "match", "ip", "protocol", 17, "0xff",
                "match", "u8", kind, "0x0f", "at", UDP_PAYLOAD, "flowid", "1:1")  # fmt: skip

    # ---- where packets go ----

    def make_routes(self):
        """Everybody reaches everybody over the fewest links."""
        links = [*(link.ends for link in self.topology.links.values()), (CONTROLLER[0], next(iter(self.routers)))]
        hops = next_hops(links, self.routers)
        self.neighbours = neighbours_of(links)
        for node in self.spaces:
            for destination, address in self.addresses.items():
                if (node, destination) in hops:
                    self.route(node, address, hops[node, destination], destination)
                elif node == destination and node in self.routers:
                    self.do(self.spaces[node], "ip", "route", "add", address, "dev", "inside")
        for name, space in self.daemons.items():
            if name in self.routers:
                self.do(space, "ip", "route", "add", "default", "via", self.routers[name], "dev", "uplink", "onlink",
                        "src", self.addresses[name])  # fmt: skip

    def route(self, node, address, towards, destination, *table):
        name = "uplink" if node == CONTROLLER[0] else device(node, towards, self.topology.workers)
        by = ["via", self.routers[towards], "onlink"] if towards in self.routers else []
        source = ["src", self.addresses[node]] if node in self.addresses and node not in self.routers else []
        self.do(self.spaces[node], "ip", "route", "add", address, *by, "dev", name, *source, *table)

    def pin(self, shares):
        """Of pins(): in place of those before."""
        for space, words in self.pinned:
            self.do(space, "ip", "rule", "del", *words)
        self.pinned = []
        for (node, source, destination), towards in pins(shares).items():
            if node not in self.routers:
                continue  # has one link
            table = 100 + self.neighbours[node].index(towards)
            space, address = self.spaces[node], self.addresses[destination]
            words = ("pref", PIN, "from", self.addresses[source], "to", address, "lookup", table)
            self.do(space, "ip", "rule", "add", *words)
            self.pinned.append((space, words))
            by = ["via", self.routers[towards], "onlink"] if towards in self.routers else []
            self.do(space, "ip", "route", "replace", address, *by, "dev", device(node, towards, ()), "table", table)

    # ---- programs ----

    def start_programs(self, text):
        for name, space in self.daemons.items():
            process = self.start(name, lab.program("switchml-switchd"), "--listen", f"{self.addresses[name]}:{PORT}",
                                 "--agent", f"{self.addresses[name]}:48881", "--insecure-no-token",
                                 namespace=space)  # fmt: skip
            self.await_line(name, process, "listening on ")
        self.at = self.controller(text, f"{CONTROLLER[1]}:{CONTROLLER_PORT}", self.spaces[CONTROLLER[0]])

    def carry_out(self, plan):
        """Groups that open from now on use the plan, of one job, and their packets its links."""
        from planner import carry, errors

        self.pin([share.tree.routes for share in plan.assignments[0].shares])
        try:
            with lab.inside(self.spaces[CONTROLLER[0]]), carry.Controller(self.at, TOKEN) as controller:
                carry.carry_out(plan, controller)
        except errors.PlanError as error:
            raise lab.LabError(str(error)) from error
