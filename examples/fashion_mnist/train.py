"""One training run on the ranks that torchrun started: stock DistributedDataParallel on the backend named by --backend.

Everything that is random comes from --seed, so two runs differ only in how gradients are summed. Rank 0 writes what it
measured to --result as JSON.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time

import data
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

GLOBAL_BATCH = 256


def make_network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


def learning_rate(step, steps, peak=0.08):
    """Rises over the first tenth, then falls to zero along a half cosine: the last steps settle on one minimum."""
    warm_up = max(1, steps // 10)
    if step < warm_up:
        return peak * (step + 1) / warm_up
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warm_up) / (steps - warm_up)))


def batches_of_rank(order, rank, ranks, batch):
    """This rank's share of every global batch of `order`; an incomplete last batch is left out."""
    per_rank = batch // ranks
    for begin in range(0, len(order) - batch + 1, batch):
        yield order[begin + rank * per_rank : begin + (rank + 1) * per_rank]


def train(model, images, labels, arguments):
    """Returns the mean loss over all ranks and the seconds, both per step."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9, weight_decay=5e-4, nesterov=True)
    shuffle = torch.Generator().manual_seed(arguments.seed)
    steps_per_epoch = len(images) // GLOBAL_BATCH
    steps = steps_per_epoch * arguments.epochs
    losses, seconds = [], []
    for epoch in range(arguments.epochs):
        order = torch.randperm(len(images), generator=shuffle)
        for indices in batches_of_rank(order, rank, ranks, GLOBAL_BATCH):
            begin = time.perf_counter()
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(len(losses), steps)
            loss = cross_entropy(model(images[indices]), labels[indices])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
            seconds.append(time.perf_counter() - begin)
            if rank == 0 and len(losses) % 50 == 0:
                print(
                    f"  {arguments.backend:<8}  epoch {epoch + 1}/{arguments.epochs}  step {len(losses):>4}/{steps}  "
                    f"loss {torch.stack(losses[-50:]).mean():.4f}  "
                    f"{sum(seconds[-50:]) / 50 * 1000:.1f} ms/step",
                    flush=True,
                )
    mean_losses = torch.stack(losses)
    dist.all_reduce(mean_losses)
    return (mean_losses / ranks).tolist(), seconds


def evaluate(network, ranks, rank):
    """Accuracy in percent and mean loss on all 10,000 test images, each rank taking every ranks-th batch."""
    images, labels = data.load("t10k")
    sums = torch.zeros(2, dtype=torch.float64)
    with torch.no_grad():
        for batch, (x, y) in enumerate(zip(images.split(250), labels.split(250))):
            if batch % ranks == rank:
                scores = network(x)
                sums[0] += (scores.argmax(dim=1) == y).sum()
                sums[1] += cross_entropy(scores, y, reduction="sum").double()
    dist.all_reduce(sums)
    return 100 * sums[0].item() / len(labels), sums[1].item() / len(labels)


def counters_of_all_ranks(backend):
    """The backend's counters, summed over the ranks; None where the backend keeps none."""
    if backend != "switchml":
        return None
    import switchml

    mine = {name: value for name, value in switchml.stats().items() if isinstance(value, int)}
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, mine)
    return {name: sum(one[name] for one in everybody) for name in mine}


def session_of(backend):
    """How this rank's gradients travel; None where the backend does not tell."""
    if backend != "switchml":
        return None
    import switchml

    return switchml.stats()["session"]


def who_waited_for_whom(backend):
    """What the live view says of the last steps, as any process of this user could ask at any time; or None."""
    if backend != "switchml" or dist.get_rank() != 0:
        return None
    command = [sys.executable, "-m", "switchml", "status", "--json", "--pid", str(os.getpid())]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    return next((group["slowest"] for group in json.loads(done.stdout)["groups"]), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", required=True)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--images", type=int, default=60000, help="train on the first so many images (default: all)")
    parser.add_argument("--result", required=True, help="JSON file that rank 0 writes")
    parser.add_argument(
        "--perturb",
        type=float,
        default=0.0,
        help="relative change of the initial weights, to see how far rounding alone carries",
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    if arguments.backend == "switchml":
        import switchml  # noqa: F401

    dist.init_process_group(backend=arguments.backend)
    network = make_network()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(1 + arguments.perturb * torch.randn_like(parameter))
    images, labels = data.load("train")
    losses, seconds = train(DistributedDataParallel(network), images[: arguments.images], labels, arguments)
    counters = counters_of_all_ranks(arguments.backend)
    session = session_of(arguments.backend)
    waits = who_waited_for_whom(arguments.backend)
    if waits:
        print(f"  python -m switchml status: {waits}", flush=True)
    accuracy, loss = evaluate(network, dist.get_world_size(), dist.get_rank())
    if dist.get_rank() == 0:
        with open(arguments.result, "w") as file:
            json.dump(
                {
                    "backend": arguments.backend,
                    "accuracy": accuracy,
                    "test_loss": loss,
                    "losses": losses,
                    "seconds": seconds,
                    "counters": counters,
                    "session": session,
                },
                file,
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
