"""Elements of exact sessions as numbers, and what the operations of docs/protocol.md make of them: exact arithmetic on
fractions, rounded here. Nothing is left to the float of Python but its notation."""

import dataclasses
from fractions import Fraction

INFINITY = "infinity"  # the magnitude


@dataclasses.dataclass(frozen=True)
class Number:
    """A float that is no NaN. Zeros have a sign."""

    negative: bool
    magnitude: Fraction | str

    @property
    def finite(self):
        return self.magnitude != INFINITY

    @property
    def value(self):
        return -self.magnitude if self.negative else self.magnitude

    @property
    def order(self):
        """What orders numbers: -0 is below +0."""
        if not self.finite:
            return (2, 0, 0) if not self.negative else (0, 0, 0)
        return (1, self.value, 0 if self.negative else 1)


NAN = None  # decoded; there is one as far as results go


@dataclasses.dataclass(frozen=True)
class Float:
    size: int  # bytes
    fraction: int  # bits behind the point
    floating = True

    @property
    def infinity(self):
        return ((1 << (8 * self.size - 1 - self.fraction)) - 1) << self.fraction

    @property
    def least(self):
        """The exponent of the smallest number's only bit."""
        return 2 - (1 << (8 * self.size - 2 - self.fraction)) - self.fraction

    def decode(self, bits):
        negative, bits = bits >> (8 * self.size - 1) == 1, bits & ((1 << (8 * self.size - 1)) - 1)
        if bits >= self.infinity:
            return Number(negative, INFINITY) if bits == self.infinity else NAN
        exponent, significand = bits >> self.fraction, bits & ((1 << self.fraction) - 1)
        if exponent:
            significand += 1 << self.fraction
            exponent -= 1
        return Number(negative, Fraction(significand) * Fraction(2) ** (exponent + self.least))

    def encode(self, number):
        """Rounded to nearest, ties to even."""
        if number is NAN:
            return self.infinity | 1 << (self.fraction - 1)
        sign = number.negative << (8 * self.size - 1)
        if not number.finite:
            return sign | self.infinity
        ulps = number.magnitude / Fraction(2) ** self.least  # of the smallest number
        above = max(0, (ulps.numerator // ulps.denominator).bit_length() - self.fraction - 1)
        count = half_even(ulps / 2**above)
        # A carry out of the significand goes into the exponent, which is what it has to do.
        return sign | min((above << self.fraction) + count, self.infinity)

    def exact(self, number):
        """The bits of a number that the type has; ValueError for others."""
        bits = self.encode(number)
        if self.decode(bits) != number:
            raise ValueError("not a number of this type")
        return bits


class NoInfinity(Float):
    """float8_e4m3fn: its highest pattern is NaN, and what is beyond the number below that becomes this number."""

    @property
    def infinity(self):
        return (1 << (8 * self.size - 1)) - 1

    def decode(self, bits):
        return NAN if bits & self.infinity == self.infinity else super().decode(bits)

    def encode(self, number):
        if number is NAN:
            return self.infinity
        bits = super().encode(number)
        return bits - (bits & self.infinity == self.infinity)


def half_even(x):
    whole, rest = divmod(x, 1)
    return int(whole) + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1))


@dataclasses.dataclass(frozen=True)
class Integer:
    size: int
    signed: bool = True
    truth: bool = False  # a bool: true where it is not 0
    floating = False

    def decode(self, bits):
        if self.truth:
            return int(bits != 0)
        return bits - (1 << 8 * self.size) if self.signed and bits >> (8 * self.size - 1) else bits

    def encode(self, number):
        """Modulo 2 to the width."""
        return number % (1 << 8 * self.size)

    def exact(self, number):
        bits = self.encode(number)
        if (bits if self.truth else self.decode(bits)) != number:
            raise ValueError("not a number of this type")
        return bits


@dataclasses.dataclass(frozen=True)
class Scaled:
    """A block: a byte s, then numbers that are multiplied by 2^(s - 127)."""

    inner: Float | Integer
    values = 64
    size = 1 + values
    floating = False
    truth = False

    def decode(self, bits):
        """What the numbers stand for in float32."""
        scale, *numbers = bits.to_bytes(self.size, "little")
        return [self.scaled(self.inner.decode(number), scale) for number in numbers]

    def scaled(self, number, scale):
        if number is NAN or scale == 255:
            return NAN
        value = number if isinstance(number, int) else number.value
        magnitude = abs(value) * Fraction(2) ** (scale - 127)
        negative = value < 0 if isinstance(number, int) else number.negative
        return Number(negative, magnitude if magnitude < 2**128 else INFINITY)

    def pack(self, scale, numbers):
        """The bits of a block of these bits of numbers, filled with zeros."""
        return int.from_bytes(bytes([scale, *numbers]), "little")


FLOAT64 = Float(8, 52)
FLOAT8 = NoInfinity(1, 3)
TYPES = {
    "float32": Float(4, 23), "float16": Float(2, 10), "bfloat16": Float(2, 7), "int32": Integer(4), "int8": Integer(1),
    "uint8": Integer(1, signed=False), "int16": Integer(2), "int64": Integer(8), "float64": FLOAT64,
    "bool": Integer(1, signed=False, truth=True), "float8_e4m3fn": FLOAT8, "float8_e5m2": Float(1, 2),
    "scaled-int8": Scaled(Integer(1)), "scaled-float8": Scaled(FLOAT8),
}  # fmt: skip
NAMES = list(TYPES)  # by number
OPERATIONS = ["sum", "min", "max", "none", "product", "and", "or", "xor", "sum-to-float32", "partial"]  # by number
BITWISE = ("and", "or", "xor")
TO_FLOAT32 = "sum-to-float32"
PARTIAL = ("float32", "float16", "bfloat16", "float64")
NARROW = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "scaled-int8", "scaled-float8")


def has_operation(kind, operation, divisor):
    """Whether numbers in a header are a type, an operation of it, and a divisor that this may have."""
    if kind >= len(NAMES) or operation >= len(OPERATIONS):
        return False
    element, operation = TYPES[NAMES[kind]], OPERATIONS[operation]
    if operation == TO_FLOAT32:
        return NAMES[kind] in NARROW and 1 <= divisor <= 128
    if operation == "partial" and NAMES[kind] not in PARTIAL or isinstance(element, Scaled) and operation != "none":
        return False
    if element.floating and operation in BITWISE:
        return False
    if not element.floating and element.truth and operation not in (*BITWISE, "none"):
        return False
    return 1 <= divisor <= (128 if element.floating and operation in ("sum", "partial") else 1)


def result_size(element, operation):
    """Bytes of the result of an element."""
    return 4 * getattr(element, "values", 1) if operation == TO_FLOAT32 else element.size


def split(data, size):
    """The bits of each element; what is left at the end is none."""
    return [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data) - size + 1, size)]


def join(bits, size):
    return b"".join(element.to_bytes(size, "little") for element in bits)


def reduce(element, operation, divisor, column):
    """The bits of the result of what each contribution has, as bits, in the order of the workers."""
    if operation in BITWISE and not element.truth:
        return fold({"and": int.__and__, "or": int.__or__, "xor": int.__xor__}[operation], column)
    numbers = [element.decode(bits) for bits in column]
    if operation == TO_FLOAT32:
        terms = zip(*numbers) if isinstance(element, Scaled) else [numbers]
        wide = [TYPES["float32"].encode(reduce_floats("sum", divisor, of_one)) for of_one in terms]
        return int.from_bytes(join(wide, 4), "little")
    return element.encode((reduce_floats if element.floating else reduce_integers)(operation, divisor, numbers))


def fold(combine, items):
    total = items[0]
    for item in items[1:]:
        total = combine(total, item)
    return total


def reduce_integers(operation, divisor, numbers):
    combine = {"sum": int.__add__, "product": int.__mul__, "min": min, "max": max, "and": int.__and__, "or": int.__or__,
               "xor": int.__xor__}  # fmt: skip
    return fold(combine[operation], numbers)


def reduce_floats(operation, divisor, numbers):
    if operation == "product":
        return fold(multiply, [Number(False, Fraction(1)), *numbers])
    if NAN in numbers:
        return NAN
    if operation != "sum":
        return (min if operation == "min" else max)(numbers, key=lambda number: number.order)
    infinities = {number for number in numbers if not number.finite}
    if infinities:
        return infinities.pop() if len(infinities) == 1 else NAN
    if all(number.magnitude == 0 for number in numbers):
        return Number(all(number.negative for number in numbers), Fraction(0))
    total = sum(number.value for number in numbers) / divisor
    return Number(total < 0, abs(total))


def multiply(a, b):
    """As float64 does."""
    if NAN in (a, b):
        return NAN
    negative = a.negative != b.negative
    if not a.finite or not b.finite:
        return NAN if 0 in (a.magnitude, b.magnitude) else Number(negative, INFINITY)
    return FLOAT64.decode(FLOAT64.encode(Number(negative, a.magnitude * b.magnitude)))
