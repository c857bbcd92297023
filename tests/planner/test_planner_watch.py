"""Plans that follow what happens, with a controller that remembers what it is told."""

import dataclasses

import pytest
from loaded import planner
from planner import PlanError
from planner.planning import Options
from planner.watch import Watch

SWITCHES = "".join(f"  - {{name: {name}, agent: 'h:1', address: 10.0.0.1}}\n" for name in "abc")
TOPOLOGY = (
    f"switches:\n{SWITCHES}workers:\n"
    + "".join(f"  - {{name: w{n}, addresses: [10.0.1.{n}], switch: a, speed: 1G}}\n" for n in (1, 2))
    + "links:\n"
    + "".join(f"  - {{ends: [w{n}, {name}], speed: 1G}}\n" for n in (1, 2) for name in "abc")
)
JOBS = "jobs:\n  - {name: j, workers: [w1, w2], root: a}\n"


@dataclasses.dataclass
class Controller:
    gone: tuple = ()
    trouble: str = ""
    told: list = dataclasses.field(default_factory=list)

    def lost(self):
        if self.trouble:
            raise PlanError(self.trouble)
        return self.gone

    def set_plan(self, job, shares):
        self.lost()
        self.told.append((job.name, [(share["weight"], share["switches"][0]["name"]) for share in shares]))


class Followed:
    """A watch over files of its own, and what it has said."""

    def __init__(self, folder, jobs=JOBS):
        self.topology, self.jobs = folder / "topology.yaml", folder / "jobs.yaml"
        self.topology.write_text(TOPOLOGY)
        self.jobs.write_text(jobs)
        self.controller, self.said, self.warned = Controller(), [], []
        settings = Options(shares=2)
        self.watch = Watch(
            self.controller, (self.topology, self.jobs), self.read, settings, self.said.append, self.warned.append
        )
        self.watch.begin(planner.plan(*self.read(()), "planned", settings))

    def read(self, lost):
        topology = planner.read_topology(self.topology)
        return topology.without(*lost), planner.read_jobs(self.jobs, topology)

    def looked(self, times=1):
        """What the controller is told by the next looks."""
        before = len(self.controller.told)
        for _ in range(times):
            self.watch.look()
        return self.controller.told[before:]


def test_every_job_has_as_many_shares_as_it_may(tmp_path):
    followed = Followed(tmp_path)
    assert followed.controller.told == [("j", [(1, "a"), (1, "a")])], "one tree, twice"
    assert followed.looked(3) == [], "nothing has happened"


def test_a_switch_that_is_lost_is_planned_around_and_taken_back(tmp_path):
    followed = Followed(tmp_path, JOBS.replace(", root: a", ""))
    ((_, first),) = followed.controller.told
    assert len(first) == 2
    used = first[0][1]
    followed.controller.gone = (used,)
    ((_, second),) = followed.looked(3)
    assert used not in [root for _, root in second] and len(second) == 2
    assert followed.said[-1] == f"planned anew, without {used}"
    followed.controller.gone = ()
    assert len(followed.looked(3)) == 1
    assert followed.said[-1] == "planned anew, with all switches"


def test_jobs_come_and_go_with_their_file(tmp_path):
    followed = Followed(tmp_path)
    followed.jobs.write_text(JOBS.replace("name: j", "name: k").replace("root: a", "root: bb"))
    assert followed.looked(3) == []
    assert len(followed.warned) == 1 and 'root "bb" is no aggregator' in followed.warned[0], "once"
    followed.jobs.write_text(JOBS.replace("root: a", "root: b"))
    assert followed.looked(3) == [("j", [(1, "b"), (1, "b")])]
    followed.topology.write_text(TOPOLOGY.replace("name: w2,", "name: w3,").replace("[w2, ", "[w3, "))
    followed.jobs.write_text("jobs:\n  - {name: k, workers: [w1, w3], root: c}\n")
    assert followed.looked(3) == [("k", [(1, "c"), (1, "c")]), ("j", [])], "who has gone opens by the topology again"


def test_a_controller_that_was_away_is_told_again(tmp_path):
    followed = Followed(tmp_path)
    followed.controller.trouble = "controller c: does not answer"
    assert followed.looked(3) == []
    assert followed.warned == ["controller c: does not answer"]
    followed.controller.trouble = ""
    assert followed.looked(3) == [("j", [(1, "a"), (1, "a")])], "it may have forgotten"


@pytest.mark.parametrize(
    ("more", "message"),
    (
        (["--watch"], "--watch goes with --controller"),
        (["--watch", "--controller", "c:1", "--shares", "all"], "--watch goes with --way planned and a number of"),
        (["--watch", "--controller", "c:1", "--way", "none"], "--watch goes with --way planned and a number of"),
    ),
)
def test_what_a_watch_goes_with(more, message, tmp_path, capsys):
    from planner import command

    with pytest.raises(SystemExit):
        command.main([str(tmp_path / "t.yaml"), "--jobs", str(tmp_path / "j.yaml"), *more])
    assert message in capsys.readouterr().err
