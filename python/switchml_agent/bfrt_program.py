"""What switch_p4/tna in a running Tofino can hold: from the tables that BFRuntime describes, and the chip's own
figures."""

import dataclasses

from switchml_agent.program import JOBS, NotSwitchml, Sizes

PAGE_SLOTS = 128  # the program takes a slot's index in the registers apart at this bit
PIPE_BITS = 7  # of a port number are below those of the pipe
# Tofino 1 and 2, as BFRuntime calls them: the port of each pipe that leads back into it.
CHIPS = {"tf1": 68, "tf2": 6}

SESSIONS = "pipe.SwitchIngress.session.sessions"
UPLINKS = "pipe.SwitchIngress.session.uplinks"
WORKERS = "pipe.SwitchIngress.session.workers"
SOURCES = "pipe.SwitchIngress.session.sources"
PAGES = "pipe.SwitchIngress.slot_index.pages"
HOMES = "pipe.SwitchIngress.slot_index.homes"
LOOPS = "pipe.SwitchIngress.around.loops"
STATIONS = "pipe.SwitchIngress.layer2.stations"
ADDRESSES = "pipe.SwitchIngress.own_address.addresses"
MAC = "pipe.SwitchIngress.own_address.mac"
CONTROL_PORT = "pipe.SwitchIngress.control_port.control_port"
MEMBERS = "pipe.SwitchEgress.copies.members"
PSNS = "pipe.SwitchEgress.copies.to_pair.psns"  # only where the program is the end of queue pairs
PORT_KINDS = "pipe.SwitchIngressParser.$PORT_METADATA"
REASONS = "pipe.SwitchIngress.reasons"
PAIRS = "pipe.SwitchIngress.sequence_check.pairs"
CONTRIBUTED_LOW = "pipe.SwitchIngress.sequence_check.bitmap.contributed_low"
CONTRIBUTED_HIGH = "pipe.SwitchIngress.sequence_check.bitmap.contributed_high"
STEPS = "pipe.SwitchIngress.passes.steps"
GROUPS, NODES, PORTS = "$pre.mgid", "$pre.node", "$PORT"  # of every program
LOOPBACK, NO_LOOPBACK, INTERNAL = "$LOOPBACK_MODE", "BF_LPBK_NONE", "$IS_INTERNAL"  # what PORTS says about one

# Tables that hold entries of sessions and settings, and those that have a default of ours.
ENTRIES = (SESSIONS, UPLINKS, WORKERS, SOURCES, PAGES, HOMES, LOOPS, STATIONS, ADDRESSES, MEMBERS, PORT_KINDS)
OTHERS = (MAC, CONTROL_PORT, STEPS, REASONS, PAIRS, CONTRIBUTED_LOW, CONTRIBUTED_HIGH, GROUPS, NODES, PORTS)
MOST_WAYS = 16  # of a pass: each takes an entry of `loops`
# The later passes of a packet: which segment each of them deals with.
LATER_PASSES = {1: (0,), 4: (1, 2, 3, 3, 2, 2, 1, 1, 0, 0)}


def field(register, name):
    """Of a register's value, as BFRuntime calls it."""
    return f"{register.removeprefix('pipe.')}.{name}"


def _ways(ports):
    """Into a pipe that has so many loop ports: slots are spread over a power of two of them, or some would carry twice
    what others do."""
    return min(1 << ports.bit_length() - 1, MOST_WAYS)


def _sessions(info, pages, pipes, segments, loop_ports):
    """How many fit into every table, whatever they are: switch_p4/sizing.py computes the same for docs/switch.md."""
    in_pipe = [port >> PIPE_BITS for port in loop_ports]
    ways = _ways(max(map(in_pipe.count, range(pipes)), default=1))
    # Each page is an entry for each segment, but the last one of a session up to one for each bit of its size.
    last_page = PAGE_SLOTS.bit_length() - 1
    return min(
        JOBS - 1,
        info[SESSIONS].size_get(),
        (info[PAGES].size_get() // segments - pages) // (last_page - 1),
        info[LOOPS].size_get() // (len(LATER_PASSES[segments]) * ways),
        info[HOMES].size_get() // (max(pipes - 1, 1) * ways),
    )


@dataclasses.dataclass(frozen=True)
class Program(Sizes):
    segments: int  # of a payload; a packet passes once for each
    pipes: int
    loop_ports: tuple  # that lead back into the pipe that they belong to, ascending
    pairs: bool = False  # it is the end of queue pairs

    @classmethod
    def of(cls, info, pipes, loop_ports):
        """From the tables' descriptions as the SDE's client has them: `info` of each by its name."""
        missing = [name for name in ENTRIES + OTHERS if name not in info]
        if missing:
            raise NotSwitchml(
                f"the program in the switch has no {missing[0]}: load the one that is made of switch_p4/tna of this version"
            )
        segments = 4 if any(action.endswith(".consume") for action in info[STEPS].action_name_list_get()) else 1
        words = 2 * sum(name.startswith("pipe.SwitchIngress.aggregator.pair") for name in info)
        bits = [
            info[WORKERS].data_field_size_get(half, "SwitchIngress.session.member")[1] for half in ("lower", "upper")
        ]
        slots = info[PAIRS].size_get() // 2
        pages = slots // PAGE_SLOTS * min(pipes, segments) // segments
        return cls(
            payload=4 * words * segments,
            members=sum(bits),
            sessions=_sessions(info, pages, pipes, segments, loop_ports),
            pages=pages,
            page_slots=PAGE_SLOTS,
            reasons=info[REASONS].size_get() // JOBS,
            places=info[MEMBERS].size_get(),
            segments=segments,
            pipes=pipes,
            loop_ports=tuple(sorted(loop_ports)),
            pairs=PSNS in info,
        )

    # A page is a job's in every pipe, so its home, the pipe of its first segment, may be any: until its members are
    # known another for each job, then that by which most of them come.

    @property
    def _segment_pipes(self):
        return min(self.pipes, self.segments)

    def first_home(self, job):
        return job % self.pipes

    def pipe_of_port(self, port):
        return port >> PIPE_BITS

    def pipe(self, home, segment=0):
        """Whose registers hold a segment of a job with this home."""
        return (home + segment % self._segment_pipes) % self.pipes

    def ways(self, job, home, segment=0):
        """The ports by which a job's packets go into the pipe of a segment, others for other jobs."""
        pipe = self.pipe(home, segment)
        ports = [port for port in self.loop_ports if self.pipe_of_port(port) == pipe]
        return tuple(ports[(job // self.pipes + i) % len(ports)] for i in range(_ways(len(ports))))

    def page(self, page, segment=0):
        """Of the registers of the segment's pipe: pipes that hold several segments have them side by side."""
        return page * (self.segments // self._segment_pipes) + segment // self._segment_pipes
