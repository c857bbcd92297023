"""Where ranks run: as processes of this host, or on hosts of a network that is made for it (tests/netlab/star.py)."""

import contextlib
import os
import pathlib
import signal
import sys
import tempfile

import repository  # noqa: F401  the path to the three below

import faults
import lab
import star

PATIENCE = 3600.0  # seconds for one answer; a call that hangs ends by the timeout of its group long before


class OneHost(lab.Lab):
    settings = {}

    def __init__(self, folder, ranks):
        super().__init__(folder)
        self.hosts = [None] * ranks


def check_network(mtu, lossy=False):
    """Ends the program with the reason if there can be no network here."""
    why = lab.missing("tc") or (faults.missing() if lossy else "")
    if not why and lab.program("switchml-switchd") is None:
        why = "switchml-switchd is not built: make setup (SWITCHML_TEST_BUILD may name the build folder)"
    if not why and mtu + 14 > star.BURST:
        why = f"--mtu {mtu} is not allowed: use 576 to {star.BURST - 14}, what a link lets through at once"
    if why:
        sys.exit(f"error: no network: {why}")


@contextlib.contextmanager
def one_host(ranks):
    with tempfile.TemporaryDirectory(prefix="switchml-bench-") as folder, OneHost(pathlib.Path(folder), ranks) as host:
        yield host


@contextlib.contextmanager
def network(hosts, rate, mtu, offload=False):
    """rate 0: no limit. Limited links have the program that loses datagrams wherever it can be had: with it a veth pair
    receives in one queue, without it in one for each core, and what is sent from several cores overtakes. Where the
    processor is the limit its copies cost too much."""
    faults_of = None if faults.missing() or not rate else "all"
    with tempfile.TemporaryDirectory(prefix="switchml-bench-") as folder:
        with star.Star(pathlib.Path(folder), hosts, rate, mtu=mtu, faults_of=faults_of, offload=offload) as made:
            yield made


def run(main):
    """Runs a benchmark so that a signal or a failure leaves nothing behind, and a failure is a message. Packets of
    switchml are in the clear, as those of its peers are, where the environment does not say otherwise."""
    os.environ.setdefault("SWITCHML_ENCRYPTION", "off")
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def stop(number, _):
        for each in signals:  # once is enough, and nothing may interrupt the clearing up
            signal.signal(each, signal.SIG_IGN)
        print(f"\nended by {signal.Signals(number).name}", file=sys.stderr)
        sys.exit(128 + number)

    for each in signals:
        signal.signal(each, stop)
    try:
        sys.exit(main())
    except (lab.LabError, OSError) as error:
        sys.exit(f"error: {error}")
