"""What a data plane must offer to be held to the vectors. To add one: derive from Target, name it in `make_target`."""

import abc
import dataclasses

# What every data plane counts, under names of the vectors' own; a target maps them to its counters.
COUNTERS = {
    "contributions_added": "contributions added into a slot, the first of a use included",
    "uses_started": "uses that took a slot's version over",
    "uses_completed": "uses that got every worker's contribution",
    "duplicates_answered": "duplicates of a complete use",
    "duplicates_dropped": "duplicates of an incomplete use",
    "results_passed_down": "results of a parent switch, sent on to all members",
    "dropped_stale": "seq older than what the slot's version holds",
    "dropped_short": "shorter than a header",
    "dropped_version": "another protocol version",
    "dropped_kind": "a kind that a switch does not take from outside",
    "dropped_length": "words or elements not whole, or more than the payload",
    "dropped_checksum": "an exact packet whose checksum does not hold",
    "dropped_session": "no such job, or not with this epoch",
    "dropped_worker": "worker number out of range",
    "dropped_source": "not the address of this worker",
    "dropped_slot": "slot out of range, or of another shard of the same worker",
    "dropped_operation": "an operation that does not exist, or not of the exact packet's type, or no divisor of it",
    "dropped_seq": "seq 0",
}


@dataclasses.dataclass(frozen=True)
class Capabilities:
    """What a data plane can do, in the words of the vectors' `needs`."""

    payload: int  # bytes, the largest of a session
    workers: int  # the most of a session
    short: bool = False  # takes chunks of any length up to the payload
    whole: bool = False  # takes chunks without words and of the payload's length, and drops what is between
    control: bool = False  # answers control requests that arrive as packets
    tree: bool = False  # may be a leaf with a parent, and the parent of switches
    exact: bool = False  # grants exact sessions
    shards: bool = False  # a worker may have several addresses, each for a range of slots

    def lacks(self, needs):
        """Why a vector with these needs cannot run here; empty if it can."""
        reasons = []
        for what, wanted in needs.items():
            have = getattr(self, what)
            if have < wanted:
                reasons.append(f"{what} {wanted} (has {have})" if wanted is not True else what)
        return f"needs {', '.join(reasons)}" if reasons else ""


@dataclasses.dataclass(frozen=True)
class Session:
    """What the switch chose for a session."""

    job: int
    epoch: int
    key: int = 0  # of the checksums of an exact one


class TargetError(Exception):
    """The data plane itself failed (crashed, refused, did not answer): no verdict about a packet."""


class Target(abc.ABC):
    """A data plane under test. Endpoints are names ("A.0", "A.0/1", "stranger", see vector.py); what address stands
    behind a name is the target's affair, but different names are different addresses. One thread, one vector at a
    time: reset() comes first. Methods raise TargetError."""

    name = ""
    capabilities: Capabilities

    @abc.abstractmethod
    def reset(self):
        """No session, empty slots. Counters may keep their values: only differences are looked at."""

    @abc.abstractmethod
    def open_session(self, spec, job=None):
        """Opens a session as a vector.Open asks, with all its members joined; returns a Session. `job`: the number
        that it must get (free at this time); else any that is free."""

    @abc.abstractmethod
    def close_session(self, name):
        """Ends the session that was opened under this name."""

    @abc.abstractmethod
    def send(self, sender, frame):
        """Hands one UDP payload to the switch and returns all that it sends because of it: [(endpoint, bytes)]."""

    @abc.abstractmethod
    def counters(self):
        """{name: value} by the names of COUNTERS. Left out: what this data plane does not count (not compared)."""

    def close(self):
        """Stops what was started. The target is not used afterwards."""


def make_target(name, executable=None):
    """A target by its name. `executable`: the software switch's driver (None: the one in the build folder)."""
    from vectors.targets import model, softswitch

    if name in ("softswitch", "softswitch-whole"):
        return softswitch.SoftSwitchTarget(executable or softswitch.default_executable(), name.endswith("-whole"))
    if name == "model":
        return model.ModelTarget()
    if name == "bmv2":
        from vectors.targets import bmv2

        return bmv2.Bmv2Target()
    if name == "bmv2-roce":
        from vectors.targets import bmv2_roce

        return bmv2_roce.Bmv2RoceTarget()
    if name == "tofino":
        from vectors.targets import tofino

        return tofino.TofinoTarget()
    if name == "tofino-roce":
        from vectors.targets import tofino_roce

        return tofino_roce.TofinoRoceTarget()
    raise ValueError(f"target {name!r}: allowed are {', '.join(TARGET_NAMES)}")


def unavailable(name):
    """Why a target cannot be had on this machine (what is missing, how to get it); empty if it can, or if that it is
    missing must be an error."""
    if name in ("bmv2", "bmv2-roce"):
        from vectors.targets import bmv2_switch

        return bmv2_switch.missing()
    if name in ("tofino", "tofino-roce"):
        from vectors.targets import tofino_switch

        return tofino_switch.missing()
    return ""


ALWAYS = ("softswitch", "softswitch-whole", "model")  # need nothing but the build
TARGET_NAMES = (*ALWAYS, "bmv2", "bmv2-roce", "tofino", "tofino-roce")
