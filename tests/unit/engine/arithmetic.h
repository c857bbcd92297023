// Floating-point state that a thread inherits from the one that starts it.
#pragma once

#include <cfenv>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace switchml::testing {

/// How this thread computes: the rounding, and whether subnormals are zero on their way in or out.
struct Arithmetic {
  int rounding = std::fegetround();
#if defined(__x86_64__)
  unsigned flags = _mm_getcsr() & 0x8040U;
#else
  unsigned flags = 0;
#endif
};

/// While it lives, this thread rounds upwards and takes subnormals for zero.
class StrangeArithmetic {
 public:
  StrangeArithmetic() {
    std::fesetround(FE_UPWARD);
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040U);
#endif
  }
  ~StrangeArithmetic() {
#if defined(__x86_64__)
    _mm_setcsr(control_);
#endif
    std::fesetround(before_);
  }
  StrangeArithmetic(const StrangeArithmetic&) = delete;
  StrangeArithmetic& operator=(const StrangeArithmetic&) = delete;

 private:
  const int before_ = std::fegetround();
#if defined(__x86_64__)
  const unsigned control_ = _mm_getcsr();
#endif
};

}  // namespace switchml::testing
