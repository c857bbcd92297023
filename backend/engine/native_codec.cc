#include "engine/native_codec.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/assert.h"
#include "base/limits.h"
#include "quant/reduction.h"

namespace switchml {

bool NativeCodec::divides_parts() const {
  return collective_.type == ElementType::kFloat16 && collective_.op == ReduceOp::kSum && !collective_.inputs.empty();
}

uint8_t NativeCodec::divisor() const {
  const bool divides = sums_floats(collective_.op, collective_.type) && !divides_parts();
  return divides ? static_cast<uint8_t>(collective_.divisor) : uint8_t{1};
}

size_t NativeCodec::encode(ElementRange range, uint8_t* out) const {
  const size_t size = element_bytes(collective_.type);
  const size_t bytes = range.count * size;
  if (bytes == 0) return 0;
  if (collective_.inputs.empty()) {
    std::memcpy(out, static_cast<const uint8_t*>(collective_.input) + range.begin * size, bytes);
    return bytes;
  }
  SWITCHML_ASSERT(collective_.inputs.size() <= kMaxWorkers);
  std::array<const uint8_t*, kMaxWorkers> inputs;
  for (size_t i = 0; i < collective_.inputs.size(); ++i) {
    inputs[i] = static_cast<const uint8_t*>(collective_.inputs[i]) + range.begin * size;
  }
  const quant::Reduction reduction{collective_.op, collective_.type, divides_parts() ? collective_.divisor : 1};
  quant::reduce(reduction, inputs.data(), static_cast<int>(collective_.inputs.size()), range.count, out);
  return bytes;
}

void NativeCodec::decode(const uint8_t* elements, ElementRange range) const {
  const size_t size = element_bytes(collective_.type);
  const size_t begin = std::max(range.begin, collective_.output_begin);
  const size_t end = std::min(range.begin + range.count, collective_.output_end);
  if (begin >= end) return;
  std::memcpy(static_cast<uint8_t*>(collective_.output) + (begin - collective_.output_begin) * size,
              elements + (begin - range.begin) * size, (end - begin) * size);
}

}  // namespace switchml
