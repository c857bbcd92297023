#include "c10d/integer_mean.h"

namespace switchml {

IntegerMean::Terms IntegerMean::terms_of(const at::Tensor& numbers, int ranks) {
  const at::Tensor wide = numbers.to(at::kLong);  // a type may be too narrow for the number of ranks
  return {at::div(wide, ranks, "trunc").to(numbers.scalar_type()).contiguous(),
          at::fmod(wide, ranks).to(at::kInt).contiguous()};
}

IntegerMean::IntegerMean(const at::Tensor& output, int ranks)
    : output_(output),
      ranks_(ranks),
      sums_{at::empty(output.sizes(), output.options().device(at::kCPU).memory_format(at::MemoryFormat::Contiguous)),
            at::empty(output.sizes(), at::kInt)} {}

void IntegerMean::write() const {
  const at::Tensor rest = sums_.remainders.to(at::kLong);
  const at::Tensor whole = sums_.quotients.to(at::kLong).add(at::div(rest, ranks_, "trunc"));
  const at::Tensor fraction = at::fmod(rest, ranks_);
  // A fraction of the other sign brings the mean below the whole, towards zero.
  const at::Tensor beyond =
      whole.gt(0).logical_and(fraction.lt(0)).to(at::kLong) - whole.lt(0).logical_and(fraction.gt(0)).to(at::kLong);
  output_.copy_(whole - beyond);
}

}  // namespace switchml
