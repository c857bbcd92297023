"""The commands of docs/quickstart.md, "Two hosts" and "A software switch", as they are written there, on hosts with
those addresses. What installs, and sysctl, whose setting no namespace has for itself, is left out."""

import os
import pathlib
import re
import shutil
import sys

import lab
import pytest

TEXT = (lab.ROOT / "docs" / "quickstart.md").read_text()
HOSTS = {"A": "192.0.2.10", "B": "192.0.2.11", "switch": "192.0.2.1"}
COMMANDS = f"{pathlib.Path(sys.prefix)}/bin{os.pathsep}{os.environ['PATH']}"  # torchrun and python of this environment

pytestmark = pytest.mark.skipif(shutil.which("torchrun", path=COMMANDS) is None, reason="this PyTorch has no torchrun")


def blocks(section):
    """The code of a section, block after block."""
    text = re.search(rf"^## {re.escape(section)}$(.*?)(?=^## )", TEXT, re.M | re.S).group(1)
    found = re.findall(r"^ *```(?:\w*)\n(.*?)^ *```$", text, re.M | re.S)
    return [re.sub(r"^   ", "", block, flags=re.M) for block in found]


def exports(section):
    return "".join(block for block in blocks(section) if block.startswith("export "))


def command(section, text, node):
    """The one block with this text; of host `node`, where one is written for all."""
    found = [b for b in blocks(section) if text in b]
    exact = [b for b in found if f"--node_rank {node}" in b] or found
    assert len(exact) == 1, (section, text, found)
    return exact[0].replace("--node_rank 0", f"--node_rank {node}")


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    with lab.Lab(tmp_path_factory.mktemp("quickstart")) as network:
        bridge = network.make_bridge("bridge")
        network.hosts = {name: network.make_host(bridge, name, "eth1", address) for name, address in HOSTS.items()}
        shutil.copy(lab.ROOT / "examples" / "ddp_minimal.py", network.folder / "train.py")
        yield network


def on_both(network, name, settings, text):
    """What the hosts printed when each ran its command."""
    processes = {}
    for node, host in enumerate("AB"):
        script = f"cd {network.folder}\n{settings}\n{command('Two hosts', text, node)}"
        processes[name + host] = network.start(
            name + host, "bash", "-ec", script, namespace=network.hosts[host], PATH=COMMANDS
        )
    network.finish(processes, lab.PATIENCE)
    return [network.log(name + host) for host in "AB"]


def is_well(logs):
    return "2 ranks" in logs[0] and logs[0].count("a group of all ranks adds") == 2 and "FAIL" not in logs[0]


def test_the_doctor_finds_two_hosts_well(network):
    logs = on_both(network, "doctor", exports("Two hosts"), "-m switchml doctor")
    assert is_well(logs), logs[0]


def test_a_job_on_two_hosts(network):
    logs = on_both(network, "job", exports("Two hosts"), "train.py")
    assert [log.count("weights, to become all ones:") for log in logs] == [1, 0], "rank 0 prints them"


def test_two_hosts_with_a_software_switch(network):
    start = command("A software switch", "--listen", 0)
    name, *options = next(line[2:] for line in start.splitlines() if line.startswith("$ ")).split()
    switch = network.start(name, lab.program(name), *options, namespace=network.hosts["switch"])
    assert network.await_line(name, switch, "listening on ") == f"{HOSTS['switch']}:48879"
    settings = exports("Two hosts") + exports("A software switch")
    logs = on_both(network, "switched", settings, "-m switchml doctor")
    assert is_well(logs) and f"{HOSTS['switch']}:48879" in logs[0], logs[0]
