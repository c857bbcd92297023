"""What a rank computes between two calls."""

import time

import torch
import torch.distributed as dist


class Computation:
    """Products with the next rows of weights that no cache holds, as in a decoding step. `seconds` is one's, the same
    on all ranks."""

    ROWS, COLUMNS, PARTS = 64, 256, 512  # 64 KiB each, 32 MiB together
    TRIALS = 2000

    def __init__(self):
        self.parts = torch.ones(self.PARTS, self.ROWS, self.COLUMNS).unbind()
        self.vector, self.product, self.at = torch.ones(self.COLUMNS), torch.empty(self.ROWS), 0
        self(self.TRIALS)
        begin = time.process_time()
        self(self.TRIALS)
        seconds = torch.tensor([(time.process_time() - begin) / self.TRIALS / dist.get_world_size()])
        dist.all_reduce(seconds)
        self.seconds = seconds.item()

    def __call__(self, count):
        for _ in range(count):
            torch.mv(self.parts[self.at], self.vector, out=self.product)
            self.at = (self.at + 1) % self.PARTS
