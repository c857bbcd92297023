// What a reduction in memory must give: of floats the exact sum, rounded once; for the rest the words of every rank, as
// the engine sends them, combined as a switch combines them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "integer/integer_codec.h"
#include "kernels/table_compare.h"
#include "kernels/tables.h"
#include "shm/reducer.h"

namespace switchml::shm::testing {

using Bytes = std::vector<uint8_t>;
using switchml::testing::Random;

inline constexpr size_t kPayload = 1024;
inline constexpr ReduceOp kReductions[] = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax};

/// Flavours 0..4 of floats are those of kernels/table_compare.h; 5: as large as finite values get.
inline constexpr int kFlavours = 6;

inline uint32_t huge_float(Random& random) { return (static_cast<uint32_t>(random()) & 0x807fffffU) | 0x7f000000U; }
inline uint16_t huge_half(Random& random, int row) {
  if (row == 2) return static_cast<uint16_t>(huge_float(random) >> 16);
  return static_cast<uint16_t>((random() & 0x83ffU) | 0x7800U);
}

inline Bytes random_tensor(ElementType type, size_t n, int flavour, Random& random) {
  const size_t size = element_bytes(type);
  Bytes tensor(n * size);
  for (size_t i = 0; i < n; ++i) {
    uint64_t bits = random();
    if (type == ElementType::kFloat32) {
      bits = flavour == 5 ? huge_float(random) : switchml::testing::any_float(random, flavour);
    } else if (is_floating(type)) {
      const int row = float_row(type);
      bits = flavour == 5 ? huge_half(random, row) : switchml::testing::any_half(random, flavour, row);
    }
    std::memcpy(tensor.data() + i * size, &bits, size);
  }
  return tensor;
}

inline std::vector<Bytes> random_tensors(ElementType type, int ranks, size_t n, int flavour, Random& random) {
  std::vector<Bytes> tensors;
  for (int rank = 0; rank < ranks; ++rank) tensors.push_back(random_tensor(type, n, flavour, random));
  return tensors;
}

/// The words of one chunk, encode(codec, words) of every rank, combined.
template <typename Encode>
Bytes combined_words(const std::vector<IntegerCodec>& codecs, bool maximum, const Encode& encode) {
  const Kernels& kernels = *scalar_kernels();
  alignas(64) int32_t total[kPayload / kWordBytes];
  Bytes words(kPayload);
  size_t n = 0;
  for (size_t rank = 0; rank < codecs.size(); ++rank) {
    n = encode(codecs[rank], words.data());
    const auto combine = rank == 0 ? kernels.store : maximum ? kernels.max : kernels.add;
    combine(total, words.data(), n);
  }
  kernels.load(total, words.data(), n);
  words.resize(n * kWordBytes);
  return words;
}

inline Bytes exact_sums(const ElementReduction& reduction, const std::vector<Bytes>& inputs, size_t n) {
  Bytes out(n * element_bytes(reduction.type));
  std::vector<const void*> sources;
  for (const Bytes& input : inputs) sources.push_back(input.data());
  scalar_kernels()->exact_sum[float_row(reduction.type)](sources.data(), sources.size(), out.data(), n,
                                                         reduction.divisor);
  return out;
}

/// `inputs`: a tensor of n elements per rank.
inline Bytes by_definition(const ElementReduction& reduction, const std::vector<Bytes>& inputs, size_t n) {
  const bool sum = reduction.op == ReduceOp::kSum;
  if (sum && is_floating(reduction.type)) return exact_sums(reduction, inputs, n);
  Bytes out(n * element_bytes(reduction.type));
  const ChunkPlan plan(reduction.type, false, {0, n}, kPayload);
  std::vector<Collective> calls(inputs.size());
  std::vector<IntegerCodec> codecs;
  for (size_t rank = 0; rank < inputs.size(); ++rank) {
    Collective& call = calls[rank];
    call.op = reduction.op;
    call.type = reduction.type;
    call.operands()->divisor = reduction.divisor;
    call.operands()->input = inputs[rank].data();
    call.operands()->output.data = out.data();
    call.count = call.operands()->output.end = n;
    codecs.emplace_back(call, plan, static_cast<int>(inputs.size()), std::nullopt);
  }
  for (size_t g = 0; n > 0 && g < plan.superblocks(); ++g) {
    Superblock superblock;
    superblock.number = g;
    superblock.range = plan.superblock(g);
    for (size_t c = 0; c < plan.chunks_of_superblock(g); ++c) {
      const ElementRange range = plan.chunk(g, c);
      const Bytes words = combined_words(codecs, !sum, [&](const IntegerCodec& codec, uint8_t* to) {
        return codec.encode_data(range, &superblock, to);
      });
      codecs[0].decode_data(words.data(), range, &superblock);
    }
  }
  return out;
}

/// Empty, or where two tensors of `type` begin to differ.
inline std::string difference(ElementType type, const uint8_t* expected, const uint8_t* found, size_t n) {
  const size_t size = element_bytes(type);
  for (size_t i = 0; i < n; ++i) {
    uint64_t wanted = 0;
    uint64_t got = 0;
    std::memcpy(&wanted, expected + i * size, size);
    std::memcpy(&got, found + i * size, size);
    if (wanted == got) continue;
    char text[80];
    std::snprintf(text, sizeof text, "element %zu is %#llx, not %#llx", i, static_cast<unsigned long long>(got),
                  static_cast<unsigned long long>(wanted));
    return text;
  }
  return "";
}

}  // namespace switchml::shm::testing
