"""The controller's topology file, with what the planner needs besides; docs/planning.md describes it."""

from .topology import Link, Node, Topology
from .yaml_nodes import YamlFile

SWITCH_KEYS = (
    "name agent agent_token_file address mac parent parent_port port_at_parent mtu ports capacity aggregates forwards"
).split()
WORKER_KEYS = "name addresses switch port speed".split()
LINK_KEYS = "ends speed ports".split()
MOST_PORTS = 65535


class _Reader:
    """What the planner has no use for (agents, addresses, MTUs) the controller checks."""

    def __init__(self, path):
        self.file = YamlFile(path)
        self.nodes: dict = {}
        self.switches: dict = {}  # name: (YAML of the switch, its values)
        self.workers: dict = {}
        self.port_speeds: dict = {}  # name: {port: bits/s}
        self.links: dict = {}

    def read(self):
        file = self.file
        top = file.mapping(file.root, "the topology", ["switches", "workers", "limits", "links"])
        switches = file.items(file.required(file.root, top, "the topology", "switches"), "switches")
        if not switches:
            file.fail(top["switches"], "switches: there is none; at least one is needed")
        for node in switches:
            self._switch(node)
        for node in file.items(top["workers"], "workers") if "workers" in top else []:
            self._worker(node)
        for node in file.items(top["links"], "links") if "links" in top else []:
            self._link(node)
        self._uplinks()
        self._access_links()
        return Topology(self.nodes.values(), self.links.values())

    def _name(self, node, values, what):
        place = self.file.required(node, values, what, "name")
        name = self.file.text(place, "name")
        if name in self.nodes:
            self.file.fail(place, f'{what.split()[-1]} name "{name}" is used twice')
        return name

    def _switch(self, node):
        values = self.file.mapping(node, "a switch", SWITCH_KEYS)
        name = self._name(node, values, "a switch")
        self.switches[name] = node, values
        what = f'switch "{name}"'
        flags = {
            key: self.file.boolean(values[key], f"{what}: {key}") for key in ("aggregates", "forwards") if key in values
        }
        capacity = self.file.speed(values["capacity"], f"{what}: capacity") if "capacity" in values else None
        if capacity and not flags.get("aggregates", True):
            self.file.fail(values["capacity"], f"{what}: capacity means nothing with aggregates: false")
        if "ports" in values:
            self.port_speeds[name] = self._ports(values["ports"], what)
        self.nodes[name] = Node(name, capacity=capacity, **flags)

    def _ports(self, node, what):
        if node.id != "mapping":
            self.file.fail(node, f"{what}: ports must map numbers to speeds, as in {{1: 100G}}")
        found: dict = {}
        for key, value in node.value:
            port = self.file.number(key, f"{what}: port", 1, MOST_PORTS)
            if port in found:
                self.file.fail(key, f"{what}: port {port} is listed twice")
            found[port] = self.file.speed(value, f"{what}: port {port}: speed")
        return found

    def _worker(self, node):
        values = self.file.mapping(node, "a worker", WORKER_KEYS)
        name = self._name(node, values, "a worker")
        self.workers[name] = node, values
        self.nodes[name] = Node.worker(name)

    def _known(self, place, what, names, kind):
        name = self.file.text(place, what)
        if name not in names:
            self.file.fail(place, f'{what} "{name}" is no {kind} of this file; allowed are {_listed(names)}')
        return name

    def _link(self, node):
        values = self.file.mapping(node, "a link", LINK_KEYS)
        place = self.file.required(node, values, "a link", "ends")
        ends = self._pair(place, "a link: ends", lambda end: self._known(end, "a link: end", self.nodes, "node"))
        what = f"link {ends[0]}-{ends[1]}"
        if ends[0] == ends[1]:
            self.file.fail(place, f"{what}: both ends are the same; allowed are two different ones")
        if frozenset(ends) in self.links:
            self.file.fail(place, f"{what} is listed twice")
        speed = self.file.required(node, values, what, "speed")
        if speed.id == "scalar":
            speeds = (self.file.speed(speed, f"{what}: speed"),) * 2
        else:
            speeds = self._pair(speed, f"{what}: speed", lambda one: self.file.speed(one, f"{what}: speed"))
        ports = (0, 0)
        if "ports" in values:
            ports = self._pair(
                values["ports"], f"{what}: ports", lambda one: self.file.number(one, f"{what}: port", 0, MOST_PORTS)
            )
        self.links[frozenset(ends)] = Link(ends, speeds, ports)

    def _pair(self, node, what, read):
        items = self.file.items(node, what)
        if len(items) != 2:
            self.file.fail(node, f"{what}: there are {len(items)}; allowed are 2, one for each end")
        return tuple(read(item) for item in items)

    def _uplinks(self):
        for name, (_, values) in self.switches.items():
            if "parent" not in values:
                continue
            what = f'switch "{name}"'
            parent = self._known(values["parent"], f"{what}: parent", self.switches, "switch")
            if parent == name:
                self.file.fail(values["parent"], f"parents form a cycle: {name} -> {name}")
            ports = tuple(
                self.file.number(values[key], f"{what}: {key}", 1, MOST_PORTS) if key in values else 0
                for key in ("parent_port", "port_at_parent")
            )
            self._derived(values["parent"], what, (name, parent), ports, [])

    def _access_links(self):
        for name, (node, values) in self.workers.items():
            what = f'worker "{name}"'
            place = self.file.required(node, values, what, "switch")
            switch = self._known(place, f"{what}: switch", self.switches, "switch")
            port = self.file.number(values["port"], f"{what}: port", 1, MOST_PORTS) if "port" in values else 0
            own = [self.file.speed(values["speed"], f"{what}: speed")] if "speed" in values else []
            self._derived(place, what, (name, switch), (0, port), own)

    def _derived(self, place, what, ends, ports, speeds):
        """The link of a parent or a worker, unless `links` has it: as slow as its slowest end."""
        if frozenset(ends) in self.links:
            return
        known = [self.port_speeds.get(end, {}).get(port) for end, port in zip(ends, ports)]
        speeds = speeds + [speed for speed in known if speed]
        if not speeds:
            self.file.fail(
                place,
                f"{what}: the link to {ends[1]} has no speed; give it with `links`, `ports` of a switch "
                "(and the number of the port) or `speed` of a worker",
            )
        self.links[frozenset(ends)] = Link(ends, (min(speeds),) * 2, ports)


def _listed(names):
    names = list(names)
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def read_topology(path):
    return _Reader(path).read()
