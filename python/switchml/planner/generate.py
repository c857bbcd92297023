"""Column generation: the linear program over all trees, of which only those are made that pay."""

import numpy

PAYS = 1e-7  # relative: a cheaper tree than that is worth a column
ROUNDS = 400


class Generator:
    """`bound` is of the first level: for any prices, what all capacity costs over the least that jobs' trees cost."""

    def __init__(self, program, pricers):
        self.program, self.pricers = program, pricers
        self.bound = numpy.inf
        self.rounds = 0
        self.start()

    @property
    def exact(self):
        return all(pricer.exact for pricer in self.pricers)

    def start(self):
        """A tree for each job, under prices as if every resource were as scarce as it is small."""
        prices = 1 / self.program.capacity
        for number, pricer in enumerate(self.pricers):
            pricer.prepare()
            self.program.add(pricer.cheapest(number, prices)[1])

    def __call__(self, stage, fixed):
        self.rounds += 1
        if self.rounds > ROUNDS:
            return False
        costs = numpy.zeros(len(self.pricers))
        added = False
        for number, pricer in enumerate(self.pricers):
            costs[number], column = pricer.cheapest(number, stage.prices)
            if costs[number] < stage.job_prices[number] * (1 - PAYS) - 1e-12:
                added |= self.program.add(column)
        if numpy.isnan(fixed).all():
            self._bound(stage.prices, costs)
        return added

    def _bound(self, prices, costs):
        priced = prices > 0
        total = float(prices[priced] @ self.program.capacity[priced])
        spent = float(costs @ self.program.weights)
        if self.exact and spent > 0:
            self.bound = min(self.bound, total / spent * self.program.unit)
