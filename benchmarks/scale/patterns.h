// The workers' inputs, and their sum. A few tensors serve all workers, and one output: each chunk of a result is
// compared with the exact sum as soon as it has been written, and then overwritten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace switchml::scale {

/// Whole numbers, so small that each sum of them, in any order, is exact in float32.
class Inputs {
 public:
  static constexpr int kTensors = 4;
  explicit Inputs(size_t elements);
  const float* of(int worker) const { return tensors_[worker % kTensors].data(); }
  size_t elements() const { return tensors_[0].size(); }

 private:
  std::vector<float> tensors_[kTensors];
};

class Results {
 public:
  /// The sum of `counts[t]` workers with tensor t, for each t.
  Results(const Inputs& inputs, const int (&counts)[Inputs::kTensors]);

  /// Expects another sum of the last element, so that right results count as wrong: for tests.
  void spoil() { expected_.back() += 1; }
  float* output() { return output_.data(); }
  enum class Verdict : uint8_t { kRight, kNotWritten, kWrong };
  /// Compares elements [begin, begin + count), and makes them unwritten again.
  Verdict check(size_t begin, size_t count);

 private:
  std::vector<float> expected_, output_;
};

}  // namespace switchml::scale
