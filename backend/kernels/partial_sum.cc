// What every processor of its kind has; of ARM that is NEON.
#include "kernels/partial_sum.h"

#include "kernels/partial_sum_loops.h"

namespace switchml {
const PartialSumKernels kPartialSums = kLoops;
}  // namespace switchml
