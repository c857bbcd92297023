// The elements of a collective in the chunks of a native session: as they are, from the tensor to the frame and back. A
// worker that speaks for several ranks sends what they make together, rounded to their type. Free of I/O and state.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/engine.h"
#include "slots/chunk_plan.h"

namespace switchml {

class NativeCodec {
 public:
  /// Keeps a reference.
  explicit NativeCodec(const Collective& collective) : collective_(collective) {}

  /// What the aggregator divides the sum by. The mean of float16 is an exception where workers speak for several ranks:
  /// each divides its part, because the sum of a host's ranks may be beyond what float16 holds.
  uint8_t divisor() const;
  /// Elements `range` to `out`, which has room for them; returns the number of bytes.
  size_t encode(ElementRange range, uint8_t* out) const;
  /// Writes the result of `range` into the collective's output, as far as output_begin/end ask for it.
  void decode(const uint8_t* elements, ElementRange range) const;

 private:
  bool divides_parts() const;
  const Collective& collective_;
};

}  // namespace switchml
