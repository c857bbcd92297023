"""Fashion-MNIST from Debian's package dataset-fashion-mnist: gzipped IDX files of bytes."""

import gzip
import pathlib

import numpy
import torch

FOLDER = pathlib.Path("/usr/share/datasets/fashion-mnist")
# Mean and standard deviation of the training images' pixels in 0..1.
MEAN, DEVIATION = 0.2860, 0.3530


def read_idx(path):
    """The bytes of an IDX file, in the shape that its header states."""
    with gzip.open(path, "rb") as file:
        content = file.read()
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise ValueError(f"{path}: not an IDX file of bytes")
    dimensions = content[3]
    shape = numpy.frombuffer(content, ">u4", dimensions, 4)
    values = numpy.frombuffer(content, "u1", offset=4 + 4 * dimensions)
    if values.size != int(numpy.prod(shape)):
        raise ValueError(f"{path}: {values.size} bytes of data, the header says {'x'.join(map(str, shape))}")
    return values.reshape(shape)


def load(part):
    """(images float32 [N, 1, 28, 28], normalised; labels int64 [N]) of part "train" or "t10k"."""
    if not FOLDER.is_dir():
        raise SystemExit(f"{FOLDER} is missing: apt-get install dataset-fashion-mnist (make setup does it)")
    images = torch.from_numpy(read_idx(FOLDER / f"{part}-images-idx3-ubyte.gz").copy()).float().div_(255)
    labels = torch.from_numpy(read_idx(FOLDER / f"{part}-labels-idx1-ubyte.gz").astype("int64"))
    return images.sub_(MEAN).div_(DEVIATION).unsqueeze(1), labels
