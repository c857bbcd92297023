// Means of integers, toward zero. Their sums may be larger than their type.
#pragma once

#include "c10d/compat.h"

namespace switchml {

class IntegerMean {
 public:
  /// What is summed over the ranks instead of numbers: their quotients by the number of ranks, which overflow no type,
  /// and the remainders, as int32.
  struct Terms {
    at::Tensor quotients;
    at::Tensor remainders;
  };
  /// New tensors, contiguous.
  static Terms terms_of(const at::Tensor& numbers, int ranks);

  IntegerMean(const at::Tensor& output, int ranks);
  /// Memory for the sums of the terms.
  const Terms& sums() const { return sums_; }
  /// From the sums to the output.
  void write() const;

 private:
  at::Tensor output_;
  int ranks_;
  Terms sums_;
};

}  // namespace switchml
