"""What trees over subsets of the aggregators cost, many subsets at once.

A tree edge from a child c to its parent p costs d(c, p) + z(p): its route, and its place at the parent. d is the same
both ways. So the edges between aggregators cost what a spanning tree costs under the weights d(u, v) + z(u) + z(v),
less z(v) of each aggregator but the root: whoever is not the root has one edge that is not a child's. The cheapest
spanning tree is therefore that of a graph without directions, and the best root the aggregator with the least z."""

import numpy


class Costs:
    """between: d of aggregators; attach: sources x aggregators, d; counts: workers of each source; intake: z."""

    def __init__(self, between, attach, counts, intake):
        self.weights = between + intake[:, None] + intake[None, :]
        self.attach = (attach + intake[None, :]) * counts[:, None]
        self.intake = intake

    def of(self, masks, root=None):
        """The cost for each row of `masks` (subsets x aggregators, bool). With `root`, all rows have it."""
        attach = numpy.where(masks[:, None, :], self.attach[None], numpy.inf).min(axis=2).sum(axis=1)
        inner = numpy.where(masks, self.intake, 0.0).sum(axis=1)
        if root is None:
            saved = inner - numpy.where(masks, self.intake, numpy.inf).min(axis=1)
        else:
            saved = inner - self.intake[root]
        return self._spanning(masks) + attach - saved

    def singles(self):
        """Of each aggregator alone."""
        return self.attach.sum(axis=0)

    def _spanning(self, masks):
        """Prim's algorithm, in all subsets side by side."""
        rows = numpy.arange(len(masks))
        first = masks.argmax(axis=1)
        outside = masks.copy()
        outside[rows, first] = False
        near = self.weights[first]
        total = numpy.zeros(len(masks))
        for _ in range(int(masks.sum(axis=1).max(initial=1)) - 1):
            reach = numpy.where(outside, near, numpy.inf)
            nearest = reach.argmin(axis=1)
            left = outside.any(axis=1)
            total += numpy.where(left, reach[rows, nearest], 0.0)
            outside[rows, nearest] = False
            near = numpy.minimum(near, self.weights[nearest])
        return total

    def tree(self, mask, root=None):
        """(root, {aggregator: parent}, parents of the sources), as places among the aggregators."""
        members = numpy.flatnonzero(mask)
        if root is None:
            root = int(members[self.intake[members].argmin()])
        parents: dict = {}
        outside = [int(member) for member in members if member != root]
        nearest = dict.fromkeys(outside, root)
        while outside:
            new = min(outside, key=lambda one: (self.weights[one, nearest[one]], one))
            outside.remove(new)
            parents[new] = nearest[new]
            for one in outside:
                if self.weights[one, new] < self.weights[one, nearest[one]]:
                    nearest[one] = new
        return root, parents, members[self.attach[:, members].argmin(axis=1)].tolist()


def every_subset(count, root=None):
    numbers = numpy.arange(1, 1 << count)
    masks = (numbers[:, None] >> numpy.arange(count)) & 1 == 1
    return masks if root is None else masks[masks[:, root]]


def search(costs, count, root=None):
    """A subset that no aggregator more or less makes cheaper: from the best single one, and from all."""
    singles = numpy.eye(count, dtype=bool)
    if root is not None:
        singles = singles[root : root + 1]
    starts = [singles[costs.of(singles, root).argmin()], numpy.ones(count, dtype=bool)]
    found = [_descend(costs, start, count, root) for start in starts]
    return min(found, key=lambda item: item[0])


def _descend(costs, mask, count, root):
    best = float(costs.of(mask[None], root)[0])
    while True:
        near = mask[None] ^ numpy.eye(count, dtype=bool)
        if root is not None:
            near[root] = mask
        near = near[near.any(axis=1)]
        values = costs.of(near, root)
        place = int(values.argmin())
        if not values[place] < best - 1e-12 * abs(best) and not (numpy.isinf(best) and values[place] < best):
            return best, mask
        best, mask = float(values[place]), near[place]
