"""Hosts around a bridge, each behind a link of limited rate, with switchml-switchd on one of them and a rank on each of
the others.

rank 0: data --- r0 |
rank 1: data --- r1 | bridge | switch --- data: switchml-switchd
...                 |        | stranger --- data: nobody of the job
"""

import functools
import json
import pathlib
import re
import subprocess
import sys
import time

import faults
import lab

RANK = pathlib.Path(__file__).with_name("rank.py")
PORT = 48879
SWITCH, STRANGER = "10.79.0.100", "10.79.0.200"
BURST = 16 * 1024  # bytes that a limited link lets through at once; less than a burst of segments, so that it is cut up
QUEUE = 8 * 1024 * 1024  # bytes that wait before it: more than all slots hold, so that it loses nothing of its own
OTHERS = 10.0  # seconds that the other ranks have when one has failed
HURRIED, HELD_BACK = "20:1", "20:2"  # faults.bpf.c


def rank_address(rank):
    return f"10.79.0.{rank + 1}"


class Star(lab.Lab):
    """rate: megabits per second of a rank's link, each way; the switch's carries as much as all ranks' together; 0: no
    limit, and nothing can be held back. faults_of: whose datagrams the links may lose: "switch", those to and from its
    port; "all"; None: no program is attached to them. offload: a host hands its link bursts of segments as one, as to a
    card that cuts them itself, which takes less of its processor; a program cannot lose one of them."""

    settings = {
        "GLOO_SOCKET_IFNAME": "data",
        "SWITCHML_INTERFACE": "data",
        "SWITCHML_SWITCH": f"{SWITCH}:{PORT}",
    }  # of a rank

    def __init__(self, folder, ranks=4, rate=100, stranger=False, mtu=1500, faults_of="switch", offload=False):
        super().__init__(folder)
        self.size, self.pins, self.links, self.mtu, self.offload = ranks, None, {}, mtu, offload
        self.faulty_port = {"switch": PORT, "all": faults.EVERY_PORT, None: None}[faults_of]
        try:
            self.bridge = self.make_bridge("b")
            program = None
            if faults_of:
                self.pins = faults.Pins(folder)
                program = faults.compile_program(folder)
            self.switch = self.plug("switch", SWITCH, rate * (ranks + 1), program)
            self.hosts = [self.plug(f"r{rank}", rank_address(rank), rate, program) for rank in range(ranks)]
            self.stranger = self.plug("stranger", STRANGER, rate) if stranger else None
            self.switchd = self.start(
                "switchd",
                lab.program("switchml-switchd"),
                "--listen",
                f"{SWITCH}:{PORT}",
                "--stats-interval",
                "1",
                "--log-level",
                "info",
                namespace=self.switch,
            )
            self.await_line("switchd", self.switchd, "listening on ")
        except BaseException:
            self.close()
            raise

    def plug(self, port, address, rate, program=None):
        host = self.make_host(self.bridge, port, "data", address, self.mtu)
        if (
            not self.offload
        ):  # what a program hands over as one burst leaves as the datagrams that it is, each with a fate of its own
            self.do(host, "ip", "link", "set", "data", "gso_max_segs", 1)
        if rate:
            self.limit(host, "data", rate)
            self.limit(self.bridge, port, rate)
        if program:
            self.links[port] = faults.Faults(
                self.pins, program, self.faulty_port, len(self.links), self.bridge, port, host, "data"
            )
        return host

    def limit(self, namespace, device, rate):
        """A token bucket, and in it two queues of which the second is served when the first is empty."""

        def add(what, *words):
            lab.run("tc", "-n", namespace, what, "add", "dev", device, *words)

        add("qdisc", "root", "handle", "10:", "tbf", "rate", f"{rate}mbit", "burst", BURST, "limit", QUEUE)
        add("qdisc", "parent", "10:1", "handle", "20:", "htb", "default", "1")
        for priority, name in enumerate((HURRIED, HELD_BACK)):
            add("class", "parent", "20:", "classid", name, "htb", "rate", "10gbit", "prio", priority, "quantum", 1514)
            add("qdisc", "parent", name, "pfifo", "limit", QUEUE // 64)

    def disturb(self, **chances):
        """The same chances on every link (Faults.set); none: a quiet network."""
        for link in self.links.values():
            link.set(**chances)

    def counts(self):
        """Of all links together."""
        each = [link.counts() for link in self.links.values()]
        return {name: sum(one[name] for one in each) for name in each[0]}

    def switch_counters(self, name="switchd"):
        """What a switchml-switchd has logged last: those that are not 0."""
        found = {}
        for line in self.log(name).splitlines():
            if "packets_received=" in line:
                found = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", line)}
        return found

    def cut(self, namespace, device):
        lab.run("ip", "-n", namespace, "link", "set", "dev", device, "down")

    def heal(self, namespace, device):
        lab.run("ip", "-n", namespace, "link", "set", "dev", device, "up")

    def close(self):
        super().close()
        if self.pins:
            self.pins.close()
            self.pins = None


class Job:
    """A rank on every host of a star (or of anything that has what is used of one here), or on the first so many, which
    do what they are told, all the same. program: that of a rank, if not rank.py."""

    def __init__(self, star, name="rank", program=None, per_host=1, hosts=None, **settings):
        self.star, self.name, self.told = star, name, 0
        store = star.folder / f"{name}.store"
        hosts = [host for host in star.hosts[:hosts] for _ in range(per_host)]
        start = functools.partial(star.start if program else star.fork, stdin=subprocess.PIPE)
        program = (sys.executable, program) if program else (RANK,)
        self.ranks = [
            start(
                f"{name}{rank}",
                *program,
                rank,
                len(hosts),
                store,
                namespace=host,
                RANKS_OF_A_HOST=str(per_host),
                **{**star.settings, **settings},
            )
            for rank, host in enumerate(hosts)
        ]
        self.collect(lab.PATIENCE)

    def tell(self, call, *arguments):
        self.told += 1
        self.begun = [len(self.star.log(f"{self.name}{rank}")) for rank in range(len(self.ranks))]
        for rank in self.ranks:
            rank.stdin.write(json.dumps([self.told, call, arguments]).encode() + b"\n")
            rank.stdin.flush()

    def collect(self, seconds):
        """What every rank answered to what it was told last. A rank's error or death is an error here, which the others
        have little time to add theirs to."""
        end, answers, gone = time.monotonic() + seconds, {}, set()
        while len(answers) < len(self.ranks) and time.monotonic() < end:
            time.sleep(0.02)
            ended = {
                rank for rank, process in enumerate(self.ranks) if process.poll() is not None
            }  # before last words are read
            answers |= {
                rank: answer for rank in range(len(self.ranks)) if rank not in answers and (answer := self.answer(rank))
            }
            gone = ended - set(answers)
            if gone or any("error" in answer for answer in answers.values()):
                end = min(end, time.monotonic() + OTHERS)
        wrong = [self.silence(rank) for rank in sorted(gone)]
        wrong += [f"rank {rank}: {answer['error']}" for rank, answer in sorted(answers.items()) if "error" in answer]
        wrong = wrong or [self.silence(rank) for rank in range(len(self.ranks)) if rank not in answers]
        if wrong:
            raise lab.LabError("\n".join(wrong))
        return [answers[rank]["answer"] for rank in range(len(self.ranks))]

    def answer(self, rank):
        """None: not yet."""
        start = f"answer {self.told} "
        for line in self.star.log(f"{self.name}{rank}").splitlines(keepends=True):
            if line.startswith(start) and line.endswith("\n"):
                return json.loads(line[len(start) :])
        return None

    def answers_of(self, some, seconds):
        """Of these ranks, where others are dead."""
        end, answers = time.monotonic() + seconds, {}
        while len(answers) < len(some) and time.monotonic() < end:
            time.sleep(0.05)
            answers = {rank: answer["answer"] for rank in some if (answer := self.answer(rank))}
        assert len(answers) == len(some), [self.silence(rank) for rank in some if rank not in answers]
        return answers

    def silence(self, rank):
        name, status = f"{self.name}{rank}", self.ranks[rank].poll()
        what = "has not answered" if status is None else f"ended with status {status}"
        switchd = self.star.log("switchd")[-1000:] if (self.star.folder / "switchd.log").exists() else ""
        return f"{name} {what}:\n{self.star.log(name)[-3000:]}\n{switchd}"

    def await_calls(self):
        """Until each rank has ended its first round of what it was told last."""
        for rank, process in enumerate(self.ranks):
            self.star.await_line(f"{self.name}{rank}", process, "under way", self.begun[rank])

    def run(self, seconds, call, *arguments):
        self.tell(call, *arguments)
        return self.collect(seconds)

    def end(self):
        """Leaves the group; every process must end well."""
        self.tell("leave")
        self.star.finish({f"{self.name}{rank}": process for rank, process in enumerate(self.ranks)}, lab.PATIENCE)
