#include "tree.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/assert.h"
#include "base/limits.h"
#include "exact/reduction.h"
#include "integer/block_exponent.h"
#include "kernels/kernels.h"

namespace switchml::accuracy {

namespace {

constexpr size_t kWordBytes = 4;

bool reaches(int children, int levels, int workers) {
  int64_t leaves = 1;
  for (int level = 0; level < levels && leaves < workers; ++level) leaves *= children;
  return leaves >= workers;
}

// The exact sum of workers `first` to `first + workers`.
Status exact_node(const Tensors& tensors, int first, int workers, int levels, uint8_t* out) {
  const std::vector<int> below = split(workers, levels);
  if (below.size() > static_cast<size_t>(kMaxWorkers)) {
    return {Code::kInvalidArgument, "a node with " + std::to_string(below.size()) + " children: allowed are up to " +
                                        std::to_string(kMaxWorkers) + "; use more levels"};
  }
  std::vector<std::vector<uint8_t>> sums;
  std::vector<const uint8_t*> inputs;
  for (const int count : below) {
    if (count == 1) {
      inputs.push_back(tensors.of(first));
    } else {
      sums.emplace_back(tensors.bytes());
      if (Status status = exact_node(tensors, first, count, levels - 1, sums.back().data()); !status.ok()) {
        return status;
      }
      inputs.push_back(sums.back().data());
    }
    first += count;
  }
  const int children = static_cast<int>(inputs.size());
  reduce({ReduceOp::kSum, tensors.type}, inputs.data(), children, tensors.elements, out);
  return Status::ok_status();
}

using Combine = void (*)(int32_t* accumulators, const uint8_t* words, size_t n);

// The accumulators of a switch: `combine` of its children's words, which are packets of workers or of switches.
template <typename Encode>
std::vector<int32_t> integer_node(int first, int workers, int levels, size_t n, Combine combine, const Encode& encode) {
  const Kernels& kernels = switchml::kernels();
  std::vector<int32_t> total(n);
  std::vector<uint8_t> words(n * kWordBytes);
  bool is_first = true;
  for (const int count : split(workers, levels)) {
    if (levels == 1) {
      encode(first, words.data());
    } else {
      kernels.load(integer_node(first, count, levels - 1, n, combine, encode).data(), words.data(), n);
    }
    (is_first ? kernels.store : combine)(total.data(), words.data(), n);
    is_first = false;
    first += count;
  }
  return total;
}

void put_word(uint8_t* words, size_t i, uint32_t value) {
  value = __builtin_bswap32(value);
  std::memcpy(words + i * kWordBytes, &value, kWordBytes);
}

// Calls `each`(block, offset of its elements in bytes, elements) for a tensor's blocks.
template <typename Each>
void for_blocks(const Tensors& tensors, const Each& each) {
  for (size_t done = 0; done < tensors.elements; done += kMaxBlockElements) {
    const size_t n = std::min(kMaxBlockElements, tensors.elements - done);
    each(done / kMaxBlockElements, done * element_bytes(tensors.type), n);
  }
}

uint64_t count_lost(const Tensors& tensors, int worker, const uint8_t* words) {
  uint64_t lost = 0;
  const size_t size = element_bytes(tensors.type);
  for (size_t i = 0; i < tensors.elements; ++i) {
    uint32_t bits = 0;
    uint32_t word;
    std::memcpy(&bits, tensors.of(worker) + i * size, size);
    std::memcpy(&word, words + i * kWordBytes, kWordBytes);
    const uint32_t magnitude = bits << (33 - 8 * size);  // The sign is shifted out.
    if (word == 0 && magnitude != 0) ++lost;
  }
  return lost;
}

}  // namespace

std::vector<int> split(int workers, int levels) {
  SWITCHML_ASSERT(workers >= 1 && levels >= 1);
  int children = 1;
  while (!reaches(children, levels, workers)) ++children;
  std::vector<int> below;
  for (int i = 0; i < children; ++i) below.push_back(workers * (i + 1) / children - workers * i / children);
  return below;
}

int magnitude_bits(int workers) {
  if (workers <= kMaxWorkers) return switchml::magnitude_bits(workers, 32, 24);
  int bits = 23;  // Rounding can reach 2^bits, and the sum must stay below 2^31.
  while ((int64_t{workers} << bits) > (int64_t{1} << 31) - 1) --bits;
  return bits;
}

Status exact_sum(const Tensors& tensors, int levels, uint8_t* out) {
  return exact_node(tensors, 0, tensors.workers, levels, out);
}

void chain_sum(const Tensors& tensors, uint8_t* out) {
  std::vector<uint8_t> sum(tensors.of(0), tensors.of(0) + tensors.bytes());
  for (int worker = 1; worker < tensors.workers; ++worker) {
    const uint8_t* two[] = {sum.data(), tensors.of(worker)};
    reduce({ReduceOp::kSum, tensors.type}, two, 2, tensors.elements, out);
    std::copy_n(out, tensors.bytes(), sum.data());
  }
  std::copy(sum.begin(), sum.end(), out);
}

IntegerSum integer_sum(const Tensors& tensors, int levels, uint8_t* out) {
  const Kernels& kernels = switchml::kernels();
  const auto row = static_cast<size_t>(float_row(tensors.type));
  const int bits = magnitude_bits(tensors.workers);
  const size_t blocks = (tensors.elements + kMaxBlockElements - 1) / kMaxBlockElements;

  const auto exponents_of = [&](int worker, uint8_t* words) {
    for_blocks(tensors, [&](size_t block, size_t offset, size_t n) {
      put_word(words, block, kernels.range[row](tensors.of(worker) + offset, n).max_exponent);
    });
  };
  const std::vector<int32_t> exponents = integer_node(0, tensors.workers, levels, blocks, kernels.max, exponents_of);

  IntegerSum sum;
  const auto words_of = [&](int worker, uint8_t* words) {
    for_blocks(tensors, [&](size_t block, size_t offset, size_t n) {
      kernels.quantize[row](tensors.of(worker) + offset, words + block * kMaxBlockElements * kWordBytes, n,
                            quantize_scale(exponents[block], bits));
    });
    sum.lost += count_lost(tensors, worker, words);
  };
  sum.words = integer_node(0, tensors.workers, levels, tensors.elements, kernels.add, words_of);

  std::vector<uint8_t> result(tensors.elements * kWordBytes);
  kernels.load(sum.words.data(), result.data(), tensors.elements);
  for_blocks(tensors, [&](size_t block, size_t offset, size_t n) {
    kernels.dequantize[row](result.data() + block * kMaxBlockElements * kWordBytes, out + offset, n,
                            dequantize_scale(exponents[block], bits), 1.0F);
  });
  return sum;
}

}  // namespace switchml::accuracy
