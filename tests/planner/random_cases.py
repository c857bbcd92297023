"""Random topologies and jobs. Whatever is drawn follows from the seed."""

import random

from loaded import planner

SPEEDS = [1e9, 2e9, 3e9, 4e9, 10e9]


def case(seed):
    """(topology, jobs): up to 7 switches of every kind, up to 12 workers, up to 4 jobs."""
    dice = random.Random(seed)
    switches = [_switch(dice, f"S{number}") for number in range(dice.randint(1, 7))]
    if not any(one.aggregates and one.forwards for one in switches):
        switches[0] = planner.Node("S0", capacity=9e9)
    inner = [one.name for one in switches if one.forwards]
    links = {}
    for place, name in enumerate(inner[1:], 1):
        _connect(dice, links, name, dice.choice(inner[:place]))
    for _ in range(dice.randint(0, len(inner))):
        _connect(dice, links, *dice.choices(inner, k=2))
    for one in switches:
        if not one.forwards:
            for other in dice.sample(inner, min(len(inner), dice.randint(1, 2))):
                _connect(dice, links, one.name, other)
    workers = [planner.Node.worker(f"W{number}") for number in range(dice.randint(2, 12))]
    for worker in workers:
        for other in dice.sample(inner, 2 if len(inner) > 1 and dice.random() < 0.1 else 1):
            _connect(dice, links, worker.name, other)
    topology = planner.Topology([*switches, *workers], links.values())
    return topology, _jobs(dice, [worker.name for worker in workers], topology.aggregators)


def _switch(dice, name):
    aggregates = dice.random() < 0.8
    capacity = dice.choice([None, 3e9, 5e9, 9e9, 20e9]) if aggregates else None
    return planner.Node(name, aggregates=aggregates, capacity=capacity, forwards=not aggregates or dice.random() < 0.85)


def _connect(dice, links, one, other):
    if one != other and frozenset((one, other)) not in links:
        speed = dice.choice(SPEEDS)
        back = speed if dice.random() < 0.8 else dice.choice(SPEEDS)
        links[frozenset((one, other))] = planner.Link((one, other), (speed, back))


def _jobs(dice, workers, aggregators):
    return [
        planner.Job(
            f"job{number}",
            tuple(dice.sample(workers, dice.randint(2, len(workers)))),
            weight=dice.choice([1.0, 1.0, 2.0, 0.5]),
            root=dice.choice(aggregators) if dice.random() < 0.3 else None,
            limit=dice.choice([None, None, None, 0.3e9, 1e9]),
        )
        for number in range(dice.randint(1, 4))
    ]


def small_case(seed):
    """Few enough trees to look at all of them: 2 to 3 aggregators, 2 to 3 workers, 1 to 2 jobs."""
    dice = random.Random(seed)
    aggregators = [
        planner.Node(f"S{number}", capacity=dice.choice([None, 2e9, 3e9, 5e9])) for number in range(dice.randint(2, 3))
    ]
    plain = [planner.Node("P", aggregates=False)] if dice.random() < 0.4 else []
    software = (
        [planner.Node("PS", capacity=4e9, forwards=False)] if len(aggregators) < 3 and dice.random() < 0.5 else []
    )
    inner = [one.name for one in aggregators + plain]
    links: dict = {}
    for place, name in enumerate(inner[1:], 1):
        _connect(dice, links, name, dice.choice(inner[:place]))
    for _ in range(2):
        _connect(dice, links, *dice.choices(inner, k=2))
    for one in software:
        _connect(dice, links, one.name, dice.choice(inner))
    workers = [planner.Node.worker(f"W{number}") for number in range(dice.randint(2, 3))]
    for worker in workers:
        _connect(dice, links, worker.name, dice.choice(inner))
    topology = planner.Topology([*aggregators, *plain, *software, *workers], links.values())
    names = [worker.name for worker in workers]
    jobs = [
        planner.Job(
            f"job{number}",
            tuple(dice.sample(names, dice.randint(2, len(names)))),
            weight=dice.choice([1.0, 2.0]),
            root=dice.choice(topology.aggregators) if dice.random() < 0.3 else None,
            limit=dice.choice([None, None, 0.5e9]),
        )
        for number in range(dice.randint(1, 2))
    ]
    return topology, jobs
