"""Pairs of hosts on both sides of one link of limited rate, and switchml-switchd beside it.

L0, L1, ... --- bridge left ---(rate, queue)--- bridge right --- R0, R1, ...
                                                     |
                                                   switch: switchml-switchd

A job has a rank on a left host and one on a right host. So the link carries each job's contributions one way and its
results the other. A flow of TCP goes from a left host to its right one.
"""

import json

import lab
import star

SWITCH = "10.79.0.250"


class SharedLink(lab.Lab):
    """rate: Mbit/s of the link, each way. queue: bytes that wait before it."""

    settings = {
        "GLOO_SOCKET_IFNAME": "data",
        "SWITCHML_INTERFACE": "data",
        "SWITCHML_SWITCH": f"{SWITCH}:{star.PORT}",
        "SWITCHML_TRANSPORT": "udp",
    }

    def __init__(self, folder, pairs, rate, queue):
        super().__init__(folder)
        try:
            self.left, self.right = self.make_bridge("left"), self.make_bridge("right")
            self.link(self.left, "trunk", self.right, "trunk")
            for bridge in (self.left, self.right):
                self.do(bridge, "ip", "link", "set", "trunk", "master", "bridge")
                lab.run("tc", "-n", bridge, "qdisc", "add", "dev", "trunk", "root", "tbf", "rate", f"{rate}mbit",
                        "burst", star.BURST, "limit", queue)  # fmt: skip
            self.pairs = [
                (
                    self.plug(self.left, f"L{i}", f"10.79.0.{i + 1}"),
                    self.plug(self.right, f"R{i}", self.right_address(i)),
                )
                for i in range(pairs)
            ]
            self.switch = self.plug(self.right, "switch", SWITCH)
            self.switchd = self.start("switchd", lab.program("switchml-switchd"), "--listen", f"{SWITCH}:{star.PORT}",
                                      namespace=self.switch)  # fmt: skip
            self.await_line("switchd", self.switchd, "listening on ")
        except BaseException:
            self.close()
            raise

    @staticmethod
    def right_address(pair):
        return f"10.79.0.{pair + 101}"

    def plug(self, bridge, name, address):
        """What a program hands over as one burst leaves as the packets that it is, each with a fate of its own."""
        host = self.make_host(bridge, name, "data", address)
        self.do(host, "ip", "link", "set", "data", "gso_max_segs", 1)
        return host

    def counts(self):
        """What the two queues have let through and lost, in bytes and packets."""
        found = []
        for bridge in (self.left, self.right):
            said = json.loads(lab.run("tc", "-n", bridge, "-s", "-j", "qdisc", "show", "dev", "trunk"))[0]
            found.append({name: said[name] for name in ("bytes", "packets", "drops", "overlimits")})
        return found
