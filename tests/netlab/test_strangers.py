"""A host of the same network that is no part of the job sends noise and forgeries to the switch and the ranks: the sums
stay right."""

import random
import re
import socket
import threading
import time

import lab
import pytest
import star
from strangers import Forger, datagram, unreachable

GENEROUS = 120.0  # seconds for whatever must come, on a busy machine
NOISE = 4000  # datagrams, in the middle of sums: some for every reason to refuse one
BURST, PAUSE = 40, 0.01  # datagrams at a time, and the time between


class Flood(threading.Thread):
    """From the stranger's namespace to all of them, under its own address and those of others, until stopped."""

    def __init__(self, namespace, workers, switch):
        super().__init__(daemon=True)
        self.workers, self.switch, self.ended = workers, switch, threading.Event()
        self.forger, self.random, self.sent, self.refused = Forger(1), random.Random(2), 0, None
        with lab.inside(namespace):
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)

    def run(self):
        try:
            while not self.ended.wait(PAUSE):
                for _ in range(BURST):
                    packet, target = self.one()
                    self.socket.sendto(packet, (target, 0))
                    self.sent += 1
        except OSError as error:
            self.refused = error

    def one(self):
        worker, own = self.random.choice(self.workers), (star.STRANGER, self.random.randrange(1024, 65536))
        what = self.random.randrange(8)
        if what < 4:
            source = self.random.choice((own, worker, (worker[0], own[1])))
            return datagram(source, self.switch, self.forger.for_switch()), self.switch[0]
        if what < 7:
            source = self.random.choice((own, self.switch, self.switch, (self.switch[0], own[1])))
            return datagram(source, worker, self.forger.for_worker()), worker[0]
        return unreachable(self.random.choice((self.switch[0], star.STRANGER)), worker, self.switch), worker[0]

    def stop(self):
        self.ended.set()
        self.join()
        self.socket.close()
        assert self.refused is None, self.refused


def sockets(network):
    """(address, port) of every rank's data socket."""
    found = []
    for host in network.hosts:
        lines = network.do(host, "ss", "-uanH").splitlines()
        found += [line.split()[3] for line in lines if f"{star.SWITCH}:{star.PORT}" in line]
    assert len(found) == network.size, found
    return [(address, int(port)) for address, port in (re.fullmatch(r"(.*):(\d+)", one).groups() for one in found)]


@pytest.mark.parametrize("precision", ("auto", "integer"))
def test_forgeries_are_refused_and_counted_and_sums_stay_right(tmp_path, precision):
    with star.Star(tmp_path, stranger=True) as network:
        job = star.Job(network, SWITCHML_PRECISION=precision)
        job.run(GENEROUS, "soak", 0.0, 1)
        flood = Flood(network.stranger, sockets(network), (star.SWITCH, star.PORT))
        flood.start()
        check_refusals(network, through_noise(job, flood, 2))
        network.disturb(lose=0.01)  # whose repairs are the stranger's chance
        check_refusals(network, through_noise(job, flood, 3))
        flood.stop()
        job.run(GENEROUS, "soak", 0.0, 4)
        assert network.switchd.poll() is None
        job.end()


def through_noise(job, flood, seed):
    """What the ranks counted until so much noise had been sent."""
    over = job.star.folder / f"over {seed}"
    job.tell("soak", str(over), seed)
    job.await_calls()
    enough, end = flood.sent + NOISE, time.monotonic() + GENEROUS
    while flood.sent < enough:
        assert flood.refused is None and time.monotonic() < end, (flood.refused, flood.sent)
        time.sleep(0.05)
    over.touch()
    return job.collect(GENEROUS)


def check_refusals(network, ranks):
    """The noise arrived, and is in the counters of those whom it reached, by reason."""
    for rank in ranks:
        assert rank["calls"] > 0 and rank["witness_failures"] == rank["results_damaged"] == 0, rank
        assert rank["results_foreign"] > 0 and rank["results_malformed"] > 0, rank
    reasons = {"dropped_session", "dropped_short", "dropped_version", "dropped_kind", "control_malformed"}
    end = time.monotonic() + GENEROUS  # the log is a second behind
    while not reasons <= set(network.switch_counters()):
        assert time.monotonic() < end, network.switch_counters()
        time.sleep(0.2)
