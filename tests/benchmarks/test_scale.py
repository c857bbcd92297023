"""benchmarks/scale: the same seed gives the same figures, simple cases take what a formula says, losses and a dead
switch cost time and nothing else. Times are virtual."""

import json
import subprocess
import sys

from benchmark_tools import BENCHMARKS

import pytest
import report
import repository
import scale_runs

BINARY = repository.built("benchmarks/scale/bench_scale")
pytestmark = pytest.mark.skipif(not BINARY.exists(), reason=f"{BINARY} is not built")

PAYLOAD = 8192
HOP = 0.5e-6
HOST = (PAYLOAD + scale_runs.HEADER_BYTES) * 8 / 100e9  # seconds of a full frame on a host's link
TRUNK = HOST / 4
FEW = {"racks": 4, "hosts": 4, "kib": 512}


def simulate(**options):
    command = [str(BINARY)]
    for name, value in options.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_tree_takes_the_time_of_its_bytes_and_of_one_way_up_and_down():
    for racks, hosts, pod, trunks in ((1, 16, 0, 0), (4, 16, 0, 2), (4, 8, 2, 4)):
        found = simulate(racks=racks, hosts=hosts, pod=pod, kib=2048)
        expected = 256 * HOST + HOST + trunks * TRUNK + (2 + trunks) * HOP
        assert found["seconds"][0] == pytest.approx(expected, rel=0.001)
        assert found["chunks"] == 256 * racks * hosts and found["retransmissions"] == 0


def test_rings_and_shares_take_what_their_bytes_take():
    n, packets = 8, 64  # of a segment
    ring = simulate(way="ring", racks=1, hosts=n, kib=n * packets * 8)
    frame = (PAYLOAD + 66) * 8 / 100e9
    assert ring["seconds"][0] == pytest.approx(2 * (n - 1) * packets * frame, rel=0.01)
    shares = simulate(way="shares", racks=1, hosts=n, kib=n * packets * 8)
    assert shares["seconds"][0] == pytest.approx(2 * (n - 1) * packets * frame, rel=0.05)
    latency = simulate(way="ring", racks=1, hosts=64, kib=512)  # one packet a segment
    assert latency["seconds"][0] == pytest.approx(2 * 63 * 2 * (frame + HOP), rel=0.001)


@pytest.mark.parametrize("way", scale_runs.WAYS)
def test_the_same_seed_gives_the_same(way):
    runs = [simulate(way=way, loss=0.001, seed=seed, **FEW) for seed in (5, 5, 6)]
    for run in runs:
        del run["memory_kib"]
    assert runs[0] == runs[1] != runs[2]


def test_losses_are_repaired():
    clean = simulate(**FEW)
    for seed in range(4):
        found = simulate(loss=0.01, seed=seed, **FEW)
        assert found["lost"] > 0 and found["retransmissions"] > 0
        assert found["chunks"] == clean["chunks"] and found["seconds"][0] > clean["seconds"][0]


@pytest.mark.parametrize("pod", (0, 2))
def test_a_dead_switch_costs_the_notice_and_no_result(pod):
    for seed in range(3):
        found = simulate(pod=pod, dies_ms=0.03, notice=20, loss=0.002, seed=seed, **FEW | {"hosts": 8})
        assert found["chunks"] == 64 * 32
        assert 0.025 < found["seconds"][0] < 1


def test_jobs_that_share_a_link_have_as_much_of_it():
    found = simulate(racks=4, hosts=16, jobs=8, slots=16, kib=1024)
    assert report.jain([1 / seconds for seconds in found["seconds"]]) > 0.99


def test_the_tool_writes_a_table_and_what_it_can_read_again(tmp_path):
    command = [sys.executable, str(BENCHMARKS / "scale")]
    first = [*command, "--workers", "64", "--kib", "256", "--json", str(tmp_path / "scale.json")]
    table = subprocess.run(first, capture_output=True, text=True, timeout=300)
    assert table.returncode == 0, table.stderr
    again = subprocess.run(
        [*command, "--from", str(tmp_path / "scale.json")], capture_output=True, text=True, timeout=60
    )
    assert again.stdout == table.stdout[: len(again.stdout)] and len(again.stdout.splitlines()) > 15


def test_one_wrong_element_of_one_worker_ends_the_run():
    done = subprocess.run([str(BINARY), "--kib", "512", "--spoil"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "the sum of chunk 63 is wrong" in done.stderr, done.stderr


def test_a_run_that_fails_says_what():
    done = subprocess.run([str(BINARY), "--racks", "1", "--hosts", "1", "--loss", "7"], capture_output=True, text=True)
    assert done.returncode == 2 and "--loss" in done.stderr
