"""The TNA program that is the end of queue pairs, as a data plane whose workers have such: the packets of the vectors
travel in RDMA WRITEs, and every result must be one that a card would take which looks at no invariant check. [RDMA-11,
RDMA-14, RDMA-15]"""

from vectors.roce import CHECK_BYTES
from vectors.targets.pairs import Cards, PairedWorkers
from vectors.targets.programmed import sessions
from vectors.targets.tofino import WORDS, TofinoTarget


class TofinoRoceTarget(PairedWorkers, TofinoTarget):
    name = "tofino-roce"
    roce = True
    behind = CHECK_BYTES

    def __init__(self, segments=1, pipes=1):
        self.cards = Cards(4 * WORDS * segments, checked=False)
        super().__init__(segments, pipes)

    def _receives(self, session, spec, worker, shard):
        if worker in spec.children:
            return super()._receives(session, spec, worker, shard)
        endpoint = spec.address(worker, shard)
        pair = self.cards.own_end(endpoint, sessions.pair_number(session.job, worker, shard))
        self.switch.set_register("psns", pair.index, pair.first_psn)
        parameters = {
            "source": 0xC000 | pair.queue_pair & 0x3FFF, "queue_pair": pair.queue_pair,
            "address_high": pair.address >> 32, "rkey": pair.rkey, "own": pair.index,
        }  # fmt: skip
        return self._copy(session, worker, shard, self._station(endpoint), "pair", parameters)

    def _speaks(self, session, spec, worker, shard):
        if worker in spec.children:
            return super()._speaks(session, spec, worker, shard)
        endpoint = spec.address(worker, shard)
        return self._source(session, worker, shard, self._station(endpoint), self.cards.pair_number(endpoint))

    def _origin(self, number):
        """Of a UDP port, or of the switch's end of a pair, which is above all ports."""
        return {"origin_high": number >> 16, "origin": number & 0xFFFF}
