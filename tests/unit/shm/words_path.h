// What a reduction must give: the words of every rank, as the engine sends them, combined as a switch combines them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "engine/codec.h"
#include "quant/table_compare.h"
#include "quant/tables.h"
#include "quant/witness.h"
#include "shm/reducer.h"

namespace switchml::shm::testing {

using Bytes = std::vector<uint8_t>;
using quant::testing::Random;

inline constexpr size_t kPayload = 1024;
inline constexpr ReduceOp kReductions[] = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax};

/// Flavours 0..4 of floats are those of quant/table_compare.h; 5: as large as finite values get.
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
      bits = flavour == 5 ? huge_float(random) : quant::testing::any_float(random, flavour);
    } else if (is_floating(type)) {
      const int row = quant::float_row(type);
      bits = flavour == 5 ? huge_half(random, row) : quant::testing::any_half(random, flavour, row);
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
Bytes combined_words(const std::vector<Codec>& codecs, bool maximum, const Encode& encode) {
  const quant::Kernels& kernels = *quant::scalar_kernels();
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

/// Exponents of group g, and the classes of its elements, which lie in `specials`, where one is not finite.
inline GroupBuffer agreed_group(const std::vector<Codec>& codecs, const ChunkPlan& plan, size_t g, Bytes* specials) {
  GroupBuffer group;
  group.group = g;
  group.range = plan.group(g);
  if (!plan.with_exponents()) return group;
  group.exponents.resize(plan.blocks_of_group(g));
  Bytes call = combined_words(codecs, true, [g](const Codec& c, uint8_t* words) { return c.encode_call(g, words); });
  quant::Witness(1, 2, kPayload / kWordBytes).guard(call.data(), call.size() / kWordBytes, 99);
  codecs[0].decode_call(call.data(), call.size() / kWordBytes, &group);
  if (!group.has_specials) return group;
  specials->assign(group.range.count, 0);
  group.specials = specials->data();
  for (size_t c = 0; c < plan.chunks_of_group(g); ++c) {
    const ElementRange range = plan.chunk(g, c);
    const Bytes counts = combined_words(
        codecs, false, [&](const Codec& codec, uint8_t* words) { return codec.encode_special(range, words); });
    codecs[0].decode_special(counts.data(), range, &group);
  }
  return group;
}

/// `inputs`: a tensor of n elements per rank.
inline Bytes by_words(const Reduction& reduction, const std::vector<Bytes>& inputs, size_t n) {
  Bytes out(n * element_bytes(reduction.type));
  const bool sum = reduction.op == ReduceOp::kSum;
  const ChunkPlan plan(reduction.type, sum && is_floating(reduction.type), {0, n}, kPayload);
  std::vector<Collective> calls(inputs.size());
  std::vector<Codec> codecs;
  for (size_t rank = 0; rank < inputs.size(); ++rank) {
    Collective& call = calls[rank];
    call.op = reduction.op;
    call.type = reduction.type;
    call.divisor = reduction.divisor;
    call.input = inputs[rank].data();
    call.output = out.data();
    call.count = call.output_end = n;
    codecs.emplace_back(call, plan, static_cast<int>(inputs.size()));
  }
  for (size_t g = 0; n > 0 && g < plan.groups(); ++g) {
    Bytes specials;
    const GroupBuffer group = agreed_group(codecs, plan, g, &specials);
    for (size_t c = 0; c < plan.chunks_of_group(g); ++c) {
      const ElementRange range = plan.chunk(g, c);
      const Bytes words = combined_words(
          codecs, !sum, [&](const Codec& codec, uint8_t* to) { return codec.encode_data(range, &group, to); });
      codecs[0].decode_data(words.data(), range, &group);
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
