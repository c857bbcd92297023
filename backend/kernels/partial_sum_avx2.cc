#include "kernels/partial_sum.h"

#if defined(__AVX2__)

#include "kernels/partial_sum_loops.h"

namespace switchml {
const PartialSumKernels* partial_sums_avx2() { return &kLoops; }
}  // namespace switchml

#else

namespace switchml {
const PartialSumKernels* partial_sums_avx2() { return &kPartialSums; }
}  // namespace switchml

#endif
