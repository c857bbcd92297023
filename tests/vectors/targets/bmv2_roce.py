"""The v1model program as a data plane whose workers have queue pairs: the packets of the vectors travel in RDMA WRITEs,
and every result must be one that a card would take. [RDMA-11, RDMA-15]"""

from vectors.targets.bmv2 import Bmv2Target
from vectors.targets.pairs import Cards, PairedWorkers
from vectors.targets.programmed import sessions


class Bmv2RoceTarget(PairedWorkers, Bmv2Target):
    name = "bmv2-roce"

    def __init__(self, words=64, sizes=None):
        super().__init__(words, sizes)
        self.cards = Cards(4 * words)

    def _member_entries(self, session, spec, worker, shard):
        if worker in spec.children:
            return super()._member_entries(session, spec, worker, shard)
        endpoint = spec.address(worker, shard)
        pair = self.cards.own_end(endpoint, sessions.pair_number(session.job, worker, shard))
        return session.pair_entries(worker, shard, self._station(endpoint), pair)
