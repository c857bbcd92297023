"""How often block exponents are what those of the step before let expect: the example's network with batch normalisation, Fashion-MNIST.

    python benchmarks/speculation --steps 300 --optimizer sgd

The ranks' shares of each batch are computed one after the other in this process, and what ranks would reduce is looked at: each parameter's
gradient, the statistics of synchronised batch normalisation forth and back, the loss, the squared norm of the gradients, and all small
parameters in one tensor. For each kind of call: the part of the blocks, and of the calls (any block), whose exponent (the largest over the
ranks) is not among those that a rule allows for. `equal`: that of the step before. `+2`: up to two above it, and not wasted more than six
bits, as a rule without windows would have it; it would change the bits of results. Numbers: windows of so many exponents around it, as
engine/exponent_window.h has them (5, and 4 for 128 ranks).
"""
import argparse
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "examples" / "fashion_mnist"))
import data  # noqa: E402
import numpy  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.functional import cross_entropy  # noqa: E402

RANKS, SHARE, BLOCK, MOST_BLOCKS, PEAK = 4, 64, 256, 64, 0.08
WIDTHS = (2, 3, 4, 5, 6, 8)


def make_network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 49, 128), nn.ReLU(), nn.Linear(128, 10))


def watch(network, noted):
    """Notes what synchronised batch normalisation would reduce."""
    def forth(name):
        return lambda module, inputs, output: noted.append(
            (f"{name} forth", torch.cat([inputs[0].mean((0, 2, 3)), inputs[0].var((0, 2, 3))]).detach()))

    def back(name):
        return lambda module, grad_in, grad_out: noted.append(
            (f"{name} back", torch.cat([grad_out[0].sum((0, 2, 3)), grad_out[0].square().sum((0, 2, 3))])))

    for name, module in network.named_children():
        if isinstance(module, nn.BatchNorm2d):
            module.register_forward_hook(forth(f"norm {name}"))
            module.register_full_backward_hook(back(f"norm {name}"))


def calls_of(network, noted, images, labels):
    """What a rank reduces in a step, by name."""
    noted.clear()
    network.zero_grad()
    loss = cross_entropy(network(images), labels)
    loss.backward()
    gradients = {name: parameter.grad.clone().flatten() for name, parameter in network.named_parameters()}
    small = [gradient for gradient in gradients.values() if gradient.numel() <= BLOCK * MOST_BLOCKS]
    calls = {"loss": loss.detach().reshape(1), "squared norm": sum(g.square().sum() for g in gradients.values()).reshape(1), **dict(noted)}
    calls.update({f"gradient {name}": gradient for name, gradient in gradients.items()})
    return {**calls, "all small gradients": torch.cat(small)}, gradients


def exponents(tensors):
    """Of each block, over all ranks."""
    fields = torch.stack(tensors).numpy().view(numpy.uint32) >> 23 & 255
    largest = fields.max(axis=0)
    padded = numpy.pad(largest, (0, -len(largest) % BLOCK))
    return padded.reshape(-1, BLOCK).max(axis=1).astype(int)


def learning_rate(step, steps):
    warm_up = max(1, steps // 10)
    return PEAK * (step + 1) / warm_up if step < warm_up else PEAK * 0.5 * (1 + math.cos(math.pi * (step - warm_up) / (steps - warm_up)))


def record(arguments):
    """{name: exponents of its blocks, a row per step}"""
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(1)
    network, noted, history = make_network(), [], {}
    watch(network, noted)
    adam = arguments.optimizer == "adam"
    optimizer = torch.optim.Adam(network.parameters()) if adam else torch.optim.SGD(network.parameters(), PEAK, 0.9, nesterov=True)
    images, labels = data.load("train")
    per_epoch = len(images) // (RANKS * SHARE)
    for step in range(arguments.steps):
        if step % per_epoch == 0:
            batches = torch.randperm(len(images))[: per_epoch * RANKS * SHARE].view(per_epoch, RANKS, SHARE)
        for group in () if adam else optimizer.param_groups:
            group["lr"] = learning_rate(step, arguments.steps)
        ranks = [calls_of(network, noted, images[share], labels[share]) for share in batches[step % per_epoch]]
        for name in ranks[0][0]:
            history.setdefault(name, []).append(exponents([calls[name] for calls, _ in ranks]))
        for name, parameter in network.named_parameters():
            parameter.grad = sum(gradients[name] for _, gradients in ranks).view_as(parameter) / RANKS
        optimizer.step()
    return {name: numpy.maximum(numpy.stack(rows), 1) for name, rows in history.items()}


def misses(rows):
    """{rule: whether a block (column) of a step (row, but the first) is outside}"""
    change = rows[1:] - rows[:-1]
    out = {"equal": change != 0, "+2": (change > 2) | (change < -4)}
    out.update({str(width): (change > width // 2) | (change <= width // 2 - width) for width in WIDTHS})
    return out


def print_table(history):
    rules, totals = ["equal", "+2", *map(str, WIDTHS)], {}
    print(f"{'% of blocks / % of calls':<28}{'blocks':>7}" + "".join(f"{rule:>14}" for rule in rules))
    for name, rows in history.items():
        found = misses(rows)
        print(f"{name:<28}{rows.shape[1]:>7}" + "".join(f"{100 * found[r].mean():>7.2f} /{100 * found[r].any(axis=1).mean():>5.1f}" for r in rules))
        if rows.shape[1] > MOST_BLOCKS or name == "all small gradients":
            continue
        for rule in rules:
            counts = numpy.array([found[rule].sum(), found[rule].size, found[rule].any(axis=1).sum(), len(found[rule])])
            totals[rule] = totals.get(rule, 0) + counts
    print(f"{'each small call by itself':<35}" + "".join(f"{100 * t[0] / t[1]:>7.2f} /{100 * t[2] / t[3]:>5.1f}" for t in totals.values()))


def main():
    parser = argparse.ArgumentParser(prog="benchmarks/speculation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300, help="at least 2; default: 300")
    parser.add_argument("--optimizer", choices=("sgd", "adam"), default="sgd", help="default: sgd, with the example's learning rates")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.steps < 2:
        parser.error(f"--steps {arguments.steps} is not allowed: 2 or more")
    print_table(record(arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main())
