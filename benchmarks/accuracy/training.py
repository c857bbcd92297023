"""Training with gradients that simulated workers sum in a tree: one process, each worker's gradient from its part of
the batch, float32 weights. What is random comes from the seed, so runs of a network differ in how gradients are summed,
and one run in its seed."""

import functools
import math
import statistics
import sys

import numpy
import exact_sums
import report
import repository
import torch
from arithmetic import FORMATS
from torch import nn
from torch.nn.functional import cross_entropy

sys.path.append(str(repository.ROOT / "examples" / "fashion_mnist"))
import data
import train

BATCH = train.GLOBAL_BATCH
TEXT = repository.ROOT / "LICENSE"
CONTEXT = 32  # characters that the transformer sees
REFERENCE, OTHER_SEED = "float64 sums", "float64 sums, another seed"


class Images:
    """The network of make demo, and its optimizer."""

    def __init__(self, steps):
        self.images, self.labels = data.load("train")
        self.make = train.make_network
        self.steps = steps

    def optimizer(self, parameters):
        return torch.optim.SGD(parameters, lr=0.0, momentum=0.9, weight_decay=5e-4, nesterov=True)

    def learning_rate(self, step):
        return train.learning_rate(step, self.steps)

    def batch(self, random):
        chosen = torch.randint(len(self.images), (BATCH,), generator=random)
        return self.images[chosen], self.labels[chosen]


class Transformer(nn.Module):
    def __init__(self, symbols, width=64, layers=2):
        super().__init__()
        self.symbols = nn.Embedding(symbols, width)
        self.places = nn.Embedding(CONTEXT, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, symbols)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT))

    def forward(self, text):
        found = self.symbols(text) + self.places.weight
        return self.out(self.layers(found, mask=self.mask)).transpose(1, 2)


class Text:
    """A small transformer that reads LICENSE, a character at a time."""

    def __init__(self, steps):
        text = TEXT.read_text()
        symbols = sorted(set(text))
        self.text = torch.tensor([symbols.index(symbol) for symbol in text])
        self.make = lambda: Transformer(len(symbols))
        self.steps = steps

    def optimizer(self, parameters):
        return torch.optim.AdamW(parameters, lr=0.0)

    def learning_rate(self, step):
        return train.learning_rate(step, self.steps, peak=3e-3)

    def batch(self, random):
        places = torch.randint(len(self.text) - CONTEXT, (BATCH // 4, 1), generator=random) + torch.arange(CONTEXT + 1)
        return self.text[places[:, :-1]], self.text[places[:, 1:]]


NETWORKS = {"images": Images, "text": Text}


def worker_gradients(network, inputs, targets, workers, wanted=slice(None)):
    """([workers, parameters], of them those `wanted`; mean loss)"""
    found, losses = [], []
    for x, y in zip(inputs.chunk(workers), targets.chunk(workers)):
        loss = cross_entropy(network(x), y)
        gradient = torch.autograd.grad(loss, list(network.parameters()))
        found.append(torch.cat([each.ravel() for each in gradient]).numpy()[wanted])
        losses.append(loss.item())
    return numpy.stack(found).astype(numpy.float64), statistics.fmean(losses)


def losses_of(task, sum_of, workers, seed):
    """The loss of each step."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    random = torch.Generator().manual_seed(seed)
    network = task.make()
    parameters = list(network.parameters())
    optimizer = task.optimizer(parameters)
    sizes = [each.numel() for each in parameters]
    losses = []
    for step in range(task.steps):
        found, loss = worker_gradients(network, *task.batch(random), workers)
        mean = torch.from_numpy((sum_of(found) / workers).astype(numpy.float32))
        for parameter, gradient in zip(parameters, mean.split(sizes)):
            parameter.grad = gradient.view_as(parameter)
        for group in optimizer.param_groups:
            group["lr"] = task.learning_rate(step)
        optimizer.step()
        losses.append(loss)
    if not math.isfinite(sum(losses)):
        raise ValueError("a training has lost its numbers: its loss is not finite")
    return losses


def ways(arithmetic, types, levels):
    """{name: how gradients are summed}. The first is float64, which adds float32 without an error that shows."""

    def in_tree(kind, level):
        form = FORMATS[kind]
        return lambda found: arithmetic.exact(exact_sums.rounded(found, 0.0, form), kind, level)

    found = {REFERENCE: lambda found: found.sum(axis=0)}
    for kind in types:
        found |= {f"{kind}, {level} level{'s' * (level > 1)}": in_tree(kind, level) for level in levels}
    return found | {"integer switch": lambda found: arithmetic.integer(found, "float32", levels)[0]}


def run(arithmetic, arguments):
    levels = [level for level in arguments.levels if level <= 3] or [1]
    rows = []
    for name in arguments.networks:
        task = NETWORKS[name](arguments.steps)
        named = [(way, sum_of, arguments.seed) for way, sum_of in ways(arithmetic, arguments.types, levels).items()]
        for way, sum_of, seed in [*named, (OTHER_SEED, named[0][1], arguments.seed + 1)]:
            losses = losses_of(task, sum_of, arguments.training_workers, seed)
            rows.append({"network": name, "way": way, "workers": arguments.training_workers, "losses": losses})
            print(f"trained: {name}, {way}", file=sys.stderr, flush=True)
    return rows


def reference_of(row, rows):
    return next(each for each in rows if each["network"] == row["network"] and each["way"] == REFERENCE)


def last(losses):
    return statistics.fmean(losses[-50:])


def print_rows(rows):
    print(f"\ntraining, {rows[0]['workers']} workers, {len(rows[0]['losses'])} steps: mean loss of the last 50 steps")
    cells = []
    for row in rows:
        reference = reference_of(row, rows)["losses"]
        apart = max(abs(a - b) for a, b in zip(row["losses"], reference))
        difference = last(row["losses"]) - last(reference)
        cells.append([row["network"], row["way"], f"{last(row['losses']):.5f}", f"{difference:+.5f}", f"{apart:.1e}"])
    report.print_columns(["network", "gradients", "loss", "less float64's", "largest difference of a step"], cells)


@functools.cache  # types have the same
def gradients(workers, elements, seed, steps=50, share=4):
    """Of the network of make demo after 50 steps, `share` images each: runs of 256 elements of all the tensor."""
    task = Images(steps)
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    random = torch.Generator().manual_seed(seed)
    network = task.make()
    optimizer = task.optimizer(network.parameters())
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = task.learning_rate(step)
        x, y = task.batch(random)
        optimizer.zero_grad()
        cross_entropy(network(x), y).backward()
        optimizer.step()
    chosen = torch.randint(len(task.images), (workers * share,), generator=random)
    parameters = sum(each.numel() for each in network.parameters())
    begins = numpy.linspace(0, parameters - 256, -(-elements // 256)).astype(int)
    wanted = (begins[:, None] + numpy.arange(256)).ravel()[:elements]
    return worker_gradients(network, task.images[chosen], task.labels[chosen], workers, wanted)[0]
