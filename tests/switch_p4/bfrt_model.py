"""The driver for BFRuntime and the compiled program on the Tofino model: what the driver writes into the tables is
written into the model, and the vectors' packets go through. No SDE is between them."""

import itertools

import bfrt_switch
from switchml_agent import api, bfrt, bfrt_program, sessions
from switchml_agent.program import REASONS
from vectors.roce import CHECK_BYTES
from vectors.targets import COUNTERS, Capabilities, Session, tofino
from vectors.targets import tofino_switch as model
from vectors.targets.bmv2_switch import SWITCH_IP, SWITCH_MAC
from vectors.targets.pairs import Cards, PairedWorkers
from vectors.targets.programmed import ProgrammedTarget

CONTROL_PORT = 3
m = api.messages


class ModelSwitch(bfrt_switch.Switch):
    """Switch, with a model behind its tables."""

    PIPES = model.PIPES
    PORTS = tofino.PORTS

    def __init__(self, switch, segments, pairs):
        self._model = switch
        self._taken_back_by = {}
        super().__init__(bfrt_switch.program_tables(segments, pairs))

    def added(self, name, keys, action, values):
        if name == bfrt_program.PORT_KINDS:
            self._model.set_port_kind(keys["intrinsic.ingress_port"], values["kind"])
            return
        if not name.startswith("pipe."):
            return  # groups are written as a whole
        table = ".".join(name.split(".")[-2:])  # `pairs` is a register's name too
        spelled = {key: self._spelled(name, key, value) for key, value in keys.items() if key != "$MATCH_PRIORITY"}
        done = self._model.add(table, spelled, ".".join(action.split(".")[-2:]), values)
        self._taken_back_by[name, self._key(name, keys)] = done

    def _spelled(self, name, key, value):
        """As the harness takes it."""
        if not isinstance(value, tuple):
            return hex(value)
        number, mask = value
        bits = reversed(range(self.tables[name].keys[key][1]))
        return "0b" + "".join(str(number >> bit & 1) if mask >> bit & 1 else "*" for bit in bits)

    def removed(self, name, keys):
        done = self._taken_back_by.pop((name, self._key(name, keys)), None)
        if done:
            self._model.remove(done)

    def defaulted(self, name, action, values):
        self._model.set_default(name.rpartition(".")[2], action.rpartition(".")[2], values)

    def grouped(self, group):
        self._model.set_group(group, self.copies(group))

    def _read(self, table, keys):
        """Counters and registers are the model's."""
        if "$REGISTER_INDEX" in keys:
            pipes = [self._register(pipe, table.name, keys["$REGISTER_INDEX"]) for pipe in range(self.PIPES)]
            return {field: [each["hi" if field.endswith(".upper") else "lo"] for each in pipes] for field in table.data}
        first = keys["$COUNTER_INDEX"]
        if first not in self.counts:  # several at once, because the model is slow to answer
            found = self._model.read_counters("reasons", range(first, first + len(REASONS)))
            self.counts.update(enumerate(found, first))
        return {"$COUNTER_SPEC_PKTS": self.counts[first]}

    def _register(self, pipe, name, index):
        return self._model.read_register(pipe, name.removeprefix("pipe."), index)

    def numbered(self, name, index, value):
        self._model.set_register(name.rpartition(".")[2], index, value)


class _Driver(bfrt.Bfrt):
    def __init__(self, settings, tables):
        super().__init__(settings)
        self._tables = tables

    def _reach(self):
        return self._tables


class BfrtTarget(tofino.TofinoTarget):
    """A target of the vectors whose sessions the driver installs."""

    name = "bfrt"

    def __init__(self, segments=1):
        ProgrammedTarget.__init__(self, tofino.PORTS, 0, 0)  # the pages are the driver's
        self._segments = segments
        self.capabilities = Capabilities(payload=4 * tofino.WORDS * segments, workers=64, whole=True, tree=True)
        # Every pipe, because the driver spreads jobs over all; and a round for what comes in by another than the job's.
        rounds = len(bfrt_program.LATER_PASSES[segments]) + 1
        self.switch = model.TofinoSwitch(tofino.WORDS, segments, rounds, range(model.PIPES), self.roce)
        self._epochs = itertools.count(0x80000000)
        self._begin()

    def _begin(self):
        self._stations = {}
        self._open = {}  # what was asked for, by name
        self.switch.watch_loops(tofino.PORTS[0])
        self._tables = ModelSwitch(self.switch, self._segments, self.roce)
        settings = bfrt.Settings("model", 0, "switchml", 0, SWITCH_IP, SWITCH_MAC, CONTROL_PORT, {})
        self._driver = _Driver(settings, self._tables)
        self._driver.connect()

    def reset(self):
        self.switch.restart()
        self._begin()

    def open_session(self, spec, job=None):
        jobs = {asked.job for asked in self._open.values()}
        asked = m.InstallRequest(
            job=job or next(number for number in range(1, 256) if number not in jobs),
            epoch=next(self._epochs),
            shards=spec.shards,
            slots=spec.slots,
            payload_bytes=self.capabilities.payload,
            members=spec.members,
            pages=self._free_pages(spec.slots),
        )
        if spec.uplink is not None:
            asked.uplink.worker = spec.uplink
            asked.uplink.parent.CopyFrom(self._asked_place(spec.parent))
        self._driver.install(asked)
        self._open[spec.name] = asked
        for worker in spec.members:
            child = worker in spec.children
            for shard in (sessions.ALL_SHARDS,) if child else range(spec.shards):
                endpoint = spec.address(worker, 0 if child else shard)
                joined = m.SetMemberRequest(job=asked.job, epoch=asked.epoch, worker=worker, shard=shard)
                joined.place.CopyFrom(self._asked_place(endpoint))
                self._join(joined, endpoint)
        return Session(job=asked.job, epoch=asked.epoch)

    def _join(self, request, endpoint):
        self._driver.set_member(request)

    def _free_pages(self, slots):
        taken = {page for asked in self._open.values() for page in asked.pages}
        program = self._driver.program
        return [page for page in range(program.pages) if page not in taken][: -(-slots // program.page_slots)]

    def place(self, name):
        """Where the station with this name is."""
        return self._station(name)

    def _asked_place(self, name):
        place = self.place(name)
        return m.SwitchPlace(address=f"{place.ip}:{place.udp_port}", mac=place.mac, port=place.port)

    def close_session(self, name):
        asked = self._open.pop(name)
        self._driver.remove(m.RemoveRequest(job=asked.job, epoch=asked.epoch))

    def counters(self):
        jobs = self.all_counters()
        return {name: sum(values[name] for values in jobs.values()) for name in COUNTERS}

    def contributors(self, name, slot, seq):
        """Worker numbers."""
        asked = self._open[name]
        return list(
            self._driver.contributors(
                m.ContributorsRequest(job=asked.job, epoch=asked.epoch, slot=slot, seq=seq)
            ).members
        )

    def all_counters(self):
        """{job: {name: value}}"""
        self._tables.counts.clear()
        return {each.job: each.values for each in self._driver.counters().jobs}


class BfrtPairsTarget(PairedWorkers, BfrtTarget):
    """The same of the program that is the end of queue pairs. Its workers have such."""

    roce = True
    behind = CHECK_BYTES

    def __init__(self, segments=1):
        self.cards = Cards(4 * tofino.WORDS * segments, checked=False)
        super().__init__(segments)

    def _join(self, request, endpoint):
        if request.shard == sessions.ALL_SHARDS:
            super()._join(request, endpoint)
            return
        number = sessions.pair_number(request.job, request.worker, request.shard)
        pair = self.cards.own_end(endpoint, number)
        request.pair.CopyFrom(m.QueuePair(number=pair.queue_pair, address=pair.address, rkey=pair.rkey))
        own = self._driver.set_member(request).pair
        assert own.number == number
        self.cards.counts_from(endpoint, own.first_psn)
