"""Sums of many workers' tensors by the arithmetic that ships: tree.h through ctypes. Values are arrays of float64 that
their type can represent, [workers, elements]."""

import ctypes
import sys
import typing

import numpy
import repository


class Format(typing.NamedTuple):
    """A type of IEEE 754, and its number in base/element_type.h."""

    number: int
    precision: int  # bits of the significand, with the hidden one
    least: int  # exponent of the smallest subnormal
    largest: float


FORMATS = {
    "float32": Format(0, 24, -149, (2 - 2**-23) * 2.0**127),
    "float16": Format(1, 11, -24, 65504.0),
    "bfloat16": Format(2, 8, -133, (2 - 2**-7) * 2.0**127),
}

HOOKS = {"bf16": 2, "fp8": 13, "int8": 12}  # what they send: numbers in base/element_type.h
BLOCK = 64


def encode(values, kind):
    """The bits of each element."""
    if kind == "bfloat16":
        return (values.astype(numpy.float32).view(numpy.uint32) >> 16).astype(numpy.uint16)
    return values.astype(kind)


def decode(bits, kind):
    if kind == "bfloat16":
        bits = (bits.astype(numpy.uint32) << 16).view(numpy.float32)
    return bits.astype(numpy.float64)


class Arithmetic:
    def __init__(self):
        path = repository.built("benchmarks/accuracy/libbench_accuracy.so")
        if not path.exists():
            sys.exit(
                f"error: {path} is not built: make setup (or SWITCHML_TEST_BUILD names another build folder), "
                "configured with SWITCHML_BUILD_BENCHMARKS=ON"
            )
        self.library = ctypes.CDLL(str(path))
        self.library.accuracy_exact.restype = ctypes.c_char_p
        self.library.accuracy_integer.restype = ctypes.c_uint64
        self.max_workers = self.library.accuracy_max_workers()

    def magnitude_bits(self, workers):
        return self.library.accuracy_magnitude_bits(workers)

    def exact(self, values, kind, levels):
        """Exact at each node of a tree, and rounded to the type there."""
        out, arguments = self.call(values, kind)
        why = self.library.accuracy_exact(*arguments, levels, pointer(out))
        if why:
            raise ValueError(f"exact sum of {len(values)} workers in {levels} level(s): {why.decode()}")
        return decode(out, kind)

    def ring(self, values, kind):
        """Rounded n - 1 times."""
        out, arguments = self.call(values, kind)
        self.library.accuracy_chain(*arguments, pointer(out))
        return decode(out, kind)

    def integer(self, values, kind, levels):
        """(the result, the words of the root, how many elements of workers became 0). ValueError if the words are not
        the same with each number of `levels`."""
        out, arguments = self.call(values, kind)
        first = None
        for level in levels:
            words = numpy.empty(values.shape[1], numpy.int32)
            lost = self.library.accuracy_integer(*arguments, level, pointer(out), pointer(words))
            if first is not None and not numpy.array_equal(first, words):
                raise ValueError(f"the words of an integer switch differ between {levels[0]} and {level} levels")
            first = words
        return decode(out, kind), first, lost

    def narrow(self, source, error, hook):
        """What the terms of source + error mean, which are float32; `error` gets what is lost."""
        values = numpy.empty(len(source) + BLOCK, numpy.float32)
        size = ctypes.c_size_t(len(source))
        self.library.accuracy_narrow(HOOKS[hook], pointer(source), pointer(error), size, pointer(values))
        return values[: len(source)]

    @staticmethod
    def call(values, kind):
        bits = numpy.ascontiguousarray(encode(values, kind))
        workers, elements = bits.shape
        out = numpy.empty(elements, bits.dtype)
        return out, (FORMATS[kind].number, pointer(bits), workers, ctypes.c_size_t(elements))


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)  # which keeps the array
