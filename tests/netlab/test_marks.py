"""Links that mark packets in place of losing them (ECN)."""

import lab
import pytest
import star

ELEMENTS = 1 << 20
RULES = """
table netdev marks {
  chain towards {
    type filter hook egress device "switch" priority 0;
    ip ecn != not-ect numgen random mod 50 == 0 counter ip ecn set ce
  }
}
"""


@pytest.fixture(name="network")
def make_network(tmp_path):
    """On the way to the switch every 50th packet that says that it heeds marks is marked."""
    if why := lab.missing("nft"):
        pytest.skip(why)
    with star.Star(tmp_path, ranks=2, rate=0, faults_of=None) as network:
        rules = tmp_path / "marks.nft"
        rules.write_text(RULES)
        try:
            network.do(network.bridge, "nft", "-f", rules)
        except lab.LabError as error:
            pytest.skip(f"this kernel marks no packets: {error}")
        yield network


def reductions(network, name, **settings):
    """Of the windows of both ranks."""
    job = star.Job(network, name, **settings)
    found = [rank["window_reductions"] for rank in job.run(lab.PATIENCE, "timed", ELEMENTS, 3)]
    job.end()
    return found


def is_marked(network):
    return "counter packets 0 " not in network.do(network.bridge, "nft", "list", "table", "netdev", "marks")


@pytest.mark.parametrize("precision", ("exact", "integer"))
def test_marks_on_the_way_to_the_switch_reach_the_windows(network, precision):
    assert all(reductions(network, "heeds", SWITCHML_PRECISION=precision))
    assert is_marked(network)


def test_who_heeds_no_marks_gets_none(network):
    reductions(network, "off", SWITCHML_CONGESTION_CONTROL="off")
    assert not is_marked(network)
