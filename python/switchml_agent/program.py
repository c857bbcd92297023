"""What the program in a running simple_switch can hold, from the description that the switch loaded."""

import dataclasses

# What happened to a packet, by its counter: docs/switch.md. A reason that stands for several counters of
# docs/troubleshooting.md names them; the others are counters themselves.
REASONS = (
    "none", "contributions_added", "uses_started", "uses_completed", "started_and_completed", "duplicates_answered",
    "duplicates_dropped", "dropped_stale", "dropped_short", "dropped_version", "dropped_kind", "dropped_length",
    "dropped_session", "dropped_worker", "dropped_source", "dropped_slot", "dropped_operation", "dropped_seq",
    "control_requests", "results_passed_down",
)  # fmt: skip
SEVERAL = {
    "none": (),
    "uses_started": ("contributions_added", "uses_started"),
    "uses_completed": ("contributions_added", "uses_completed"),
    "started_and_completed": ("contributions_added", "uses_started", "uses_completed"),
}
_TABLES = (
    "addresses",
    "mac",
    "stations",
    "control_port",
    "sessions",
    "uplinks",
    "workers",
    "sources",
    "pairs",
    "pages",
    "members",
)
JOBS = 256  # numbers, job 0 for packets of no session included


class NotSwitchml(Exception):
    """Another program, or another version of it."""


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What any of the programs can hold."""

    payload: int  # bytes of the words of a packet that has any
    members: int  # of one session
    sessions: int
    pages: int
    page_slots: int
    reasons: int  # counters of a job
    places: int  # of members, in all sessions together: one for each shard of each


@dataclasses.dataclass(frozen=True)
class Program(Sizes):
    @classmethod
    def of(cls, config):
        """From the JSON that p4c made."""
        try:
            registers = {entry["name"].split(".")[-1]: entry for entry in config["register_arrays"]}
            tables = {table["name"].split(".")[-1]: table for line in config["pipelines"] for table in line["tables"]}
            counters = {entry["name"].split(".")[-1]: entry for entry in config["counter_arrays"]}
            words = next(kind for kind in config["header_types"] if kind["name"] == "words_h")
            slots = registers["seqs"]["size"] // 2
            lacking = [name for name in _TABLES if name not in tables]
            if lacking:
                raise KeyError(lacking[0])
            return cls(
                payload=4 * len(words["fields"]),
                members=registers["contributed_low"]["bitwidth"] + registers["contributed_high"]["bitwidth"],
                sessions=min(tables["sessions"]["max_size"], JOBS - 1),
                pages=tables["pages"]["max_size"],
                page_slots=slots // tables["pages"]["max_size"],
                reasons=counters["reasons"]["size"] // JOBS,
                places=tables["members"]["max_size"],
            )
        except (KeyError, StopIteration) as error:
            missing = error.args[0] if error.args else "words_h"
            raise NotSwitchml(
                f"the program {config.get('program', '(unnamed)')!r} in the switch has no {missing}: load the one that is made "
                "of switch_p4/v1model of this version"
            ) from error
