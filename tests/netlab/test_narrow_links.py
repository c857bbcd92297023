"""Narrow terms with a float32 result, between hosts: bits, and the bytes on their links."""

import pytest
import star
from test_every_host import GENEROUS, LOSS, RATE, job_on, sent_bytes

HOSTS = 4


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    with star.Star(tmp_path_factory.mktemp("narrow"), ranks=HOSTS, rate=RATE, faults_of="all") as network:
        yield network


@pytest.mark.parametrize("transport, hosts, per_host, weather", (
    ("udp", 2, 1, LOSS), ("udp", 3, 1, {}), ("tcp", 3, 1, {}), ("auto", 2, 2, LOSS), ("tcp", 2, 2, {})))  # fmt: skip
def test_every_bit_is_right(network, transport, hosts, per_host, weather):
    job = job_on(network, f"bits{transport}{hosts}{per_host}", hosts, per_host, SWITCHML_TRANSPORT=transport)
    network.disturb(**weather)
    ranks = job.run(GENEROUS, "narrow_sums", 3)
    network.disturb()
    assert all(rank["calls"] > 20 for rank in ranks), ranks
    job.end()


#: Of what float32 takes. The sums stay on their hosts: packets of UDP are as full of terms as of float32. [NSUM-4]
RATIOS = {"bfloat16": 0.51, "float8_e5m2": 0.26, "int8": 0.265}


@pytest.mark.parametrize("transport", ("udp", "tcp"))
@pytest.mark.parametrize("hosts", (2, HOSTS))
def test_a_link_carries_narrow_terms_of_a_reduce_scatter(network, transport, hosts):
    job = job_on(network, f"bytes{transport}{hosts}", hosts, SWITCHML_TRANSPORT=transport)

    def taken(kind):
        before = [sent_bytes(host) for host in network.hosts[:hosts]]
        job.run(GENEROUS, "reduce_scatters", kind, 2**20, 3)
        return [sent_bytes(host) - first for host, first in zip(network.hosts, before)]

    wide = taken("float32")
    for kind, most in RATIOS.items():
        for _ in range(6):  # A host that waits long asks again by a chunk.
            ratios = [narrow / of_float32 for narrow, of_float32 in zip(taken(kind), wide)]
            print(f"{transport}, {hosts} hosts, {kind}: {ratios}")
            if max(ratios) < most:
                break
        assert max(ratios) < most, f"{kind}: {ratios} of what float32 takes"
    job.end()
