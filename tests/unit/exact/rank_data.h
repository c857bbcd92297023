// Floats that are hard to add, for tests that add them on their way: gradients, what cancels, what lies far apart,
// ties, zeros of both signs, and what is not finite.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "exact/float_format.h"
#include "exact/reduction.h"

namespace switchml::testing {

using Random = std::mt19937_64;
using Bytes = std::vector<uint8_t>;

inline constexpr ElementType kFloats[] = {ElementType::kFloat32, ElementType::kFloat16, ElementType::kBFloat16,
                                          ElementType::kFloat64};

enum class Data { kGradients, kAnyBits, kCancelling, kFarApart, kTies, kZeros, kSpecial };
inline constexpr Data kAllData[] = {Data::kGradients, Data::kAnyBits, Data::kCancelling, Data::kFarApart,
                                    Data::kTies,      Data::kZeros,   Data::kSpecial};

inline uint64_t finite(const FloatFormat& f, Random& random) {
  return (random() % f.limit) | (random() % 2 ? f.sign() : 0);
}

inline uint64_t bits_of(Data data, const FloatFormat& f, size_t rank, Random& random) {
  const uint64_t hidden = uint64_t{1} << (f.precision - 1);
  const uint64_t one = (f.limit / hidden / 2) * hidden;
  const uint64_t sign = random() % 2 ? f.sign() : 0;
  switch (data) {
    case Data::kGradients: return (one - (random() % 8) * hidden + random() % hidden) | sign;
    case Data::kAnyBits: return finite(f, random);
    case Data::kCancelling: return (one + random() % 2 * hidden * (f.limit / hidden / 3)) | (rank % 2 ? f.sign() : 0);
    case Data::kFarApart:
      return ((rank % 3 == 0 ? f.limit - hidden : rank % 3 == 1 ? one : 0) + random() % hidden) | sign;
    case Data::kTies:  // 1, half a unit of that, and what turns the balance.
      return rank % 3 == 0
                 ? one
                 : ((rank % 3 == 1 ? one - static_cast<uint64_t>(f.precision) * hidden : random() % 2) | sign);
    case Data::kZeros: return random() % 8 == 0 ? 0 : f.sign();
    case Data::kSpecial:
      return random() % 9 == 0 ? f.limit | sign : random() % 9 == 0 ? f.limit + 1 + random() % 3 : finite(f, random);
  }
  return 0;
}

/// The inputs of ranks, and what their sum is by exact/reduction.h.
struct RankData {
  ElementType type;
  size_t elements;
  std::vector<Bytes> inputs;

  RankData(ElementType of, size_t ranks, size_t count, Data data, Random& random)
      : type(of), elements(count), inputs(ranks, Bytes(count * element_bytes(of))) {
    for (size_t rank = 0; rank < ranks; ++rank) {
      for (size_t i = 0; i < count; ++i) {
        const uint64_t bits = bits_of(data, format_of(of), rank, random);
        std::memcpy(&inputs[rank][i * element_bytes(of)], &bits, element_bytes(of));
      }
    }
  }

  Bytes sum(uint32_t divisor) const {
    std::vector<const uint8_t*> all;
    for (const Bytes& input : inputs) all.push_back(input.data());
    Bytes result(inputs[0].size());
    reduce({ReduceOp::kSum, type, divisor}, all.data(), static_cast<int>(all.size()), elements, result.data());
    return result;
  }
};

/// Bit by bit.
inline ::testing::AssertionResult same(ElementType type, const Bytes& a, const Bytes& b) {
  for (size_t i = 0; i < a.size(); i += element_bytes(type)) {
    if (std::memcmp(&a[i], &b[i], element_bytes(type)) == 0) continue;
    uint64_t x = 0;
    uint64_t y = 0;
    std::memcpy(&x, &a[i], element_bytes(type));
    std::memcpy(&y, &b[i], element_bytes(type));
    return ::testing::AssertionFailure() << "element " << i / element_bytes(type) << ": " << std::hex << x << ", not "
                                         << y;
  }
  return ::testing::AssertionSuccess();
}

}  // namespace switchml::testing
