// The kernel tables of this build. Each accessor gives nullptr where the compiler's target has no such instructions.
// Precondition of all but scalar_kernels(): this processor has them (dispatch.cc asks it first).
#pragma once

#include "kernels/kernels.h"

namespace switchml {

const Kernels* scalar_kernels();
const Kernels* avx2_kernels();
const Kernels* avx512_kernels();
const Kernels* neon_kernels();

}  // namespace switchml
