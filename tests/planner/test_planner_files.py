"""The files of topologies and jobs: what is read, and what is said of mistakes."""

import pytest
from loaded import ROOT, planner

TOPOLOGY = """switches:
  - {name: spine, agent: a:1, address: 10.0.0.1, ports: {1: 100G, 2: 40G}, capacity: 1.5T}
  - {name: leaf, agent: b:1, address: 10.0.0.2, parent: spine, parent_port: 9, port_at_parent: 1, ports: {9: 10G}}
  - {name: plain, aggregates: false}
  - {name: ps, agent: c:1, address: 10.0.0.3, forwards: false}
workers:
  - {name: w0, addresses: [10.0.1.1], switch: leaf, speed: 25G}
  - {name: w1, addresses: [10.0.1.2], switch: plain}
  - {name: w2, addresses: [10.0.1.3], switch: spine, port: 2}
links:
  - {ends: [plain, spine], speed: [3G, 500M], ports: [7, 2]}
  - {ends: [ps, spine], speed: 9G}
  - {ends: [w1, plain], speed: 1G}
"""
JOBS = """jobs:
  - name: first
    workers: [w0, w1]
    weight: 2
    root: spine
    limit: 1.5G
  - {name: second, workers: [w0, w1, w2]}
"""


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def error_of(read, *arguments):
    with pytest.raises(planner.PlanError) as caught:
        read(*arguments)
    return str(caught.value)


def test_a_topology_is_read(write):
    topology = planner.read_topology(write("t.yaml", TOPOLOGY))
    assert topology.workers == ["w0", "w1", "w2"]
    assert topology.aggregators == ["spine", "leaf", "ps"]
    assert topology.nodes["spine"].capacity == 1.5e12 and topology.nodes["leaf"].capacity is None
    assert not topology.nodes["ps"].forwards and topology.nodes["plain"].forwards
    # A link of a parent is as slow as its slower port; one of `links` has a speed each way.
    assert topology.link("leaf", "spine").speeds == (10e9, 10e9) and topology.link("leaf", "spine").ports == (9, 1)
    assert topology.speed("plain", "spine") == 3e9 and topology.speed("spine", "plain") == 5e8
    assert topology.link("w0", "leaf").least == 25e9 and topology.link("w1", "plain").least == 1e9
    assert topology.link("w2", "spine").speeds == (40e9, 40e9)
    assert len(topology.links) == 6


def test_jobs_are_read(write):
    topology = planner.read_topology(write("t.yaml", TOPOLOGY))
    first, second = planner.read_jobs(write("j.yaml", JOBS), topology)
    assert first == planner.Job("first", ("w0", "w1"), 2.0, "spine", 1.5e9)
    assert second == planner.Job("second", ("w0", "w1", "w2"))


@pytest.mark.parametrize(
    "old, new, line, message",
    [
        (
            "capacity: 1.5T",
            "capacity: 9",
            2,
            'switch "spine": capacity "9": allowed is a number above 0 with M, G or T',
        ),
        ("capacity: 1.5T", "capacity: 0G", 2, 'capacity "0G": allowed is a number above 0'),
        ("capacity: 1.5T", "speed: 1G", 2, 'a switch has no key "speed"; allowed are name, agent'),
        ("aggregates: false", "aggregates: perhaps", 4, 'aggregates "perhaps": allowed are true and false'),
        ("aggregates: false", "aggregates: false, capacity: 1G", 4, "capacity means nothing with aggregates: false"),
        ("name: plain", "name: leaf", 4, 'switch name "leaf" is used twice'),
        (
            "parent: spine",
            "parent: spin",
            3,
            'parent "spin" is no switch of this file; allowed are spine, leaf, plain, ps',
        ),
        ("parent: spine", "parent: leaf", 3, "parents form a cycle: leaf -> leaf"),
        ("ports: {9: 10G}", "ports: {9: 10}", 3, 'port 9: speed "10": allowed is a number'),
        ("ports: {9: 10G}", "ports: 10G", 3, "ports must map numbers to speeds, as in {1: 100G}"),
        ("ports: {9: 10G}", "ports: {9: 10G, 9: 20G}", 3, "port 9 is listed twice"),
        (", speed: 25G", "", 7, 'worker "w0": the link to leaf has no speed'),
        ("switch: plain", "switch: w0", 8, 'switch "w0" is no switch of this file'),
        ("ends: [ps, spine]", "ends: [ps, spin]", 12, 'end "spin" is no node of this file'),
        ("ends: [ps, spine]", "ends: [ps]", 12, "there are 1; allowed are 2"),
        ("ends: [ps, spine]", "ends: [ps, ps]", 12, "both ends are the same"),
        ("ends: [ps, spine]", "ends: [spine, plain]", 12, "link spine-plain is listed twice"),
        ("ports: [7, 2]", "ports: [7, 65536]", 11, 'port "65536": allowed are 0 to 65535'),
        ("speed: 9G", "", 12, 'link ps-spine needs the key "speed"'),
        ("links:", "links: [", 10, "is not YAML"),
    ],
)
def test_mistakes_in_a_topology_are_named_with_their_line(write, old, new, line, message):
    assert old in TOPOLOGY
    path = write("t.yaml", TOPOLOGY.replace(old, new, 1))
    text = error_of(planner.read_topology, path)
    assert message in text
    if "YAML" not in message:
        assert text.startswith(f"{path}:{line}: ")


@pytest.mark.parametrize(
    "old, new, line, message",
    [
        ("weight: 2", "weight: 0", 4, 'job "first": weight "0": allowed is a number from 0.000001 to 1000000'),
        ("weight: 2", "weight: .nan", 4, 'weight ".nan"'),
        ("root: spine", "root: plain", 5, 'root "plain" is no aggregator of the topology; allowed are spine, leaf, ps'),
        ("limit: 1.5G", "limit: fast", 6, 'limit "fast": allowed is a number above 0'),
        ("workers: [w0, w1]", "workers: [w0, spine]", 3, 'worker "spine" is no worker of the topology'),
        ("workers: [w0, w1]", "workers: [w0, w0]", 3, 'worker "w0" is listed twice'),
        ("workers: [w0, w1]", "workers: [w0]", 3, "workers: there are 1; allowed are 2 or more"),
        ("workers: [w0, w1]", "workers: w0", 3, "workers must be a list"),
        ("name: second", "name: first", 7, 'job name "first" is used twice'),
        ("name: second, ", "", 7, 'a job needs the key "name"'),
        ("jobs:", "job:", 1, 'the file of jobs has no key "job"'),
    ],
)
def test_mistakes_in_jobs_are_named_with_their_line(write, old, new, line, message):
    topology = planner.read_topology(write("t.yaml", TOPOLOGY))
    path = write("j.yaml", JOBS.replace(old, new, 1))
    text = error_of(planner.read_jobs, path, topology)
    assert message in text and text.startswith(f"{path}:{line}: ")


def test_files_that_cannot_be_read(write, tmp_path):
    assert "cannot be read: No such file" in error_of(planner.read_topology, tmp_path / "none.yaml")
    assert "is empty" in error_of(planner.read_topology, write("empty.yaml", ""))
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\xfd")
    assert "is not text in UTF-8" in error_of(planner.read_topology, tmp_path / "binary.yaml")
    assert "must have keys" in error_of(planner.read_topology, write("list.yaml", "[1, 2]"))


def test_the_examples_are_read():
    topology = planner.read_topology(ROOT / "examples" / "planning" / "topology.yaml")
    (job,) = planner.read_jobs(ROOT / "examples" / "planning" / "jobs.yaml", topology)
    assert len(topology.workers) == 8 and job.root == "PS"
