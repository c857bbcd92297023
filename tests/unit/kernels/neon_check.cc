// Proves the NEON table bit-equal to the scalar one on a machine of another kind, under an emulator.
// kernels_neon_test.cc builds and runs it where it can; by hand, from the repository root (one line):
//   aarch64-linux-gnu-g++ -std=c++17 -O2 -static -ffp-contract=off -fno-math-errno -Ibackend -Itests/unit
//     tests/unit/kernels/neon_check.cc backend/kernels/{exact_sum,kernels_scalar,kernels_neon}.cc
//     backend/integer/block_exponent.cc -o neon_check && qemu-aarch64 neon_check
#include <cstdio>
#include <cstdlib>

#include "base/assert.h"
#include "kernels/table_compare.h"
#include "kernels/tables.h"

namespace switchml {
void assertion_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, condition);
  std::abort();
}
}  // namespace switchml

int main() {
  using namespace switchml;
  const Kernels* neon = neon_kernels();
  if (neon == nullptr) {
    std::fprintf(stderr, "neon_check: this build has no NEON table\n");
    return 2;
  }
  constexpr uint64_t kSeeds = 5;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    testing::TableComparison comparison(*scalar_kernels(), *neon, seed);
    std::string difference = comparison.run();
    if (difference.empty()) difference = comparison.run_all_halves();
    if (!difference.empty()) {
      std::fprintf(stderr, "neon_check: %s (seed %llu)\n", difference.c_str(), static_cast<unsigned long long>(seed));
      return 1;
    }
  }
  std::printf("neon_check: neon equals scalar, %d seeds\n", static_cast<int>(kSeeds));
  return 0;
}
