"""The parameters of two well-known models, as lists of shapes in the order in which the models register them.

resnet50  ResNet-50 for 1000 classes (torchvision's): 161 tensors, 25,557,032 elements
bert      BERT-base, uncased, with its pooler: 199 tensors, 109,482,240 elements
"""

import math


def convolution(out, into, kernel):
    """A convolution without bias, and the batch norm behind it."""
    return [(out, into, kernel, kernel), (out,), (out,)]


def resnet50():
    shapes, into = convolution(64, 3, 7), 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            shapes += convolution(width, into, 1) + convolution(width, width, 3) + convolution(4 * width, width, 1)
            shapes += convolution(4 * width, into, 1) if block == 0 else []
            into = 4 * width
    return [*shapes, (1000, into), (1000,)]


def linear(out, into):
    return [(out, into), (out,)]


def bert():
    hidden, norm = 768, [(768,), (768,)]
    shapes = [(30522, hidden), (512, hidden), (2, hidden), *norm]
    for _ in range(12):
        shapes += [shape for _ in range(4) for shape in linear(hidden, hidden)] + norm  # query, key, value, output
        shapes += linear(4 * hidden, hidden) + linear(hidden, 4 * hidden) + norm
    return [*shapes, *linear(hidden, hidden)]


MODELS = {"resnet50": resnet50, "bert": bert}


def scaled(model, scale):
    """The same tensors with their first dimensions multiplied."""
    return [(max(1, round(shape[0] * scale)), *shape[1:]) for shape in MODELS[model]()]


def elements(shapes):
    return sum(map(math.prod, shapes))
