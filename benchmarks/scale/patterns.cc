#include "patterns.h"

#include <algorithm>

namespace switchml::scale {

namespace {
constexpr int kLargest = 700;     // Allows 2^24 / kLargest workers.
constexpr int kUnwritten = 0xff;  // Bytes of a NaN.
}  // namespace

Inputs::Inputs(size_t elements) {
  uint64_t state = 1;
  for (auto& tensor : tensors_) {
    tensor.resize(elements);
    for (float& element : tensor) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      element = static_cast<float>(static_cast<int>((state >> 33) % (2 * kLargest + 1)) - kLargest);
    }
  }
}

Results::Results(const Inputs& inputs, const int (&counts)[Inputs::kTensors])
    : expected_(inputs.elements()), output_(inputs.elements()) {
  for (size_t i = 0; i < expected_.size(); ++i) {
    int64_t sum = 0;
    for (int t = 0; t < Inputs::kTensors; ++t) sum += counts[t] * static_cast<int64_t>(inputs.of(t)[i]);
    expected_[i] = static_cast<float>(sum);
  }
  std::memset(output_.data(), kUnwritten, output_.size() * sizeof(float));
}

Results::Verdict Results::check(size_t begin, size_t count) {
  float* const written = output_.data() + begin;
  const bool right = std::memcmp(written, expected_.data() + begin, count * sizeof(float)) == 0;
  const auto* bytes = reinterpret_cast<const uint8_t*>(written);
  if (!right) {
    const bool untouched = std::all_of(bytes, bytes + count * sizeof(float), [](uint8_t b) { return b == kUnwritten; });
    return untouched ? Verdict::kNotWritten : Verdict::kWrong;
  }
  std::memset(written, kUnwritten, count * sizeof(float));
  return Verdict::kRight;
}

}  // namespace switchml::scale
