"""XXH3-64 with a seed, as the xxHash library defines it (xxhash.h), for checksums of packets. Of Python alone, so that
agents and vectors need nothing else."""

import struct

SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
M = 2**64 - 1
P32_1, P32_2, P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
P64_1, P64_2, P64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P64_4, P64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
MX_1, MX_2 = 0x165667919E3779F9, 0x9FB21C651E98DF25
STRIPE, LANES = 64, 8
STRIPES = (len(SECRET) - STRIPE) // 8  # of a block


def digest(data, seed=0):
    if len(data) <= 16:
        return short(data, seed)
    if len(data) <= 240:
        return middle(data, seed)
    return long(data, seed)


def u64(data, at=0):
    return int.from_bytes(data[at : at + 8], "little")


def u32(data, at=0):
    return int.from_bytes(data[at : at + 4], "little")


def swapped(number, size):
    return int.from_bytes(number.to_bytes(size, "little"), "big")


def rotated(number, by):
    return (number << by | number >> (64 - by)) & M


def folded(a, b):
    product = a * b
    return (product & M) ^ (product >> 64)


def avalanche(h):
    h = (h ^ h >> 37) * MX_1 & M
    return h ^ h >> 32


def avalanche64(h):
    h = (h ^ h >> 33) * P64_2 & M
    h = (h ^ h >> 29) * P64_3 & M
    return h ^ h >> 32


def short(data, seed):
    size = len(data)
    if size == 0:
        return avalanche64(seed ^ u64(SECRET, 56) ^ u64(SECRET, 64))
    if size <= 3:
        combined = data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8
        return avalanche64(combined ^ ((u32(SECRET) ^ u32(SECRET, 4)) + seed & M))
    if size <= 8:
        seed ^= swapped(seed & 0xFFFFFFFF, 4) << 32
        h = (u32(data, size - 4) + (u32(data) << 32)) ^ ((u64(SECRET, 8) ^ u64(SECRET, 16)) - seed & M)
        h = (h ^ rotated(h, 49) ^ rotated(h, 24)) * MX_2 & M
        h = (h ^ (h >> 35) + size) * MX_2 & M
        return h ^ h >> 28
    low = u64(data) ^ ((u64(SECRET, 24) ^ u64(SECRET, 32)) + seed & M)
    high = u64(data, size - 8) ^ ((u64(SECRET, 40) ^ u64(SECRET, 48)) - seed & M)
    return avalanche(size + swapped(low, 8) + high + folded(low, high) & M)


def middle(data, seed):
    size = len(data)

    def mix(at, secret):
        low = u64(data, at) ^ (u64(SECRET, secret) + seed & M)
        return folded(low, u64(data, at + 8) ^ (u64(SECRET, secret + 8) - seed & M))

    h = size * P64_1
    if size <= 128:
        for i in range((size - 1) // 32 + 1):
            h += mix(16 * i, 32 * i) + mix(size - 16 * (i + 1), 32 * i + 16)
        return avalanche(h & M)
    h = avalanche(h + sum(mix(16 * i, 16 * i) for i in range(8)) & M)
    h += sum(mix(16 * i, 16 * (i - 8) + 3) for i in range(8, size // 16))
    return avalanche(h + mix(size - 16, 136 - 17) & M)


def long(data, seed):
    secret = seeded(seed)
    lanes = [P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1]

    def accumulate(at, secret_at):
        values = struct.unpack_from("<8Q", data, at)
        keys = struct.unpack_from("<8Q", secret, secret_at)
        for i, (value, key) in enumerate(zip(values, keys)):
            lanes[i ^ 1] = lanes[i ^ 1] + value & M
            key ^= value
            lanes[i] = lanes[i] + (key & 0xFFFFFFFF) * (key >> 32) & M

    for stripe in range((len(data) - 1) // STRIPE):
        accumulate(stripe * STRIPE, stripe % STRIPES * 8)
        if stripe % STRIPES == STRIPES - 1 and (stripe + 1) * STRIPE <= len(data) - 1:
            for i in range(LANES):
                lanes[i] = (lanes[i] ^ lanes[i] >> 47 ^ u64(secret, len(secret) - STRIPE + 8 * i)) * P32_1 & M
    accumulate(len(data) - STRIPE, len(secret) - STRIPE - 7)
    h = len(data) * P64_1
    for i in range(0, LANES, 2):
        h += folded(lanes[i] ^ u64(secret, 11 + 8 * i), lanes[i + 1] ^ u64(secret, 19 + 8 * i))
    return avalanche(h & M)


def seeded(seed):
    numbers = struct.unpack(f"<{len(SECRET) // 8}Q", SECRET)
    mixed = [(number + (seed if i % 2 == 0 else -seed)) & M for i, number in enumerate(numbers)]
    return struct.pack(f"<{len(mixed)}Q", *mixed)
