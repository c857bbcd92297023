// The NEON kernels against the scalar ones. On another processor the comparison runs under an emulator where there is
// one, with a compiler for it (Debian: g++-aarch64-linux-gnu, qemu-user).
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "kernels/vector_table.h"

namespace switchml {
namespace {

TEST(Neon, IsInEveryBuildForItsProcessors) {
#if defined(__aarch64__)
  ASSERT_NE(neon_kernels(), nullptr);
  EXPECT_STREQ(neon_kernels()->name, "neon");
#else
  EXPECT_EQ(neon_kernels(), nullptr);
#endif
}

#if defined(__aarch64__)
TEST(Neon, EqualsScalarBitForBit) { testing::expect_equal_to_scalar("neon"); }

TEST(Neon, EqualsScalarOnAllHalves) { testing::expect_equal_to_scalar_on_all_halves("neon"); }
#else
bool has_command(const std::string& name) {
  return std::system(("command -v " + name + " >/dev/null 2>&1").c_str()) == 0;
}

TEST(Neon, EqualsScalarUnderAnEmulator) {
  const std::filesystem::path source = std::filesystem::path(__FILE__).parent_path() / "neon_check.cc";
  for (const std::string tool : {"aarch64-linux-gnu-g++", "qemu-aarch64"}) {
    if (!has_command(tool)) GTEST_SKIP() << "no " << tool << " on this machine";
  }
  if (!std::filesystem::exists(source)) GTEST_SKIP() << "the build's sources are gone: no " << source;
  const std::string root = (source.parent_path() / "../../..").lexically_normal().string();
  const std::string program = ::testing::TempDir() + "switchml_neon_check_" + std::to_string(getpid());
  const std::string kernels = root + "/backend/kernels/";
  ASSERT_EQ(std::system(("aarch64-linux-gnu-g++ -std=c++17 -O2 -static -ffp-contract=off -fno-math-errno -I" + root +
                         "/backend -I" + root + "/tests/unit " + source.string() + " " + kernels + "exact_sum.cc " +
                         kernels + "kernels_scalar.cc " + kernels + "kernels_neon.cc " + root +
                         "/backend/integer/block_exponent.cc -o " + program)
                            .c_str()),
            0);
  const int result = std::system(("qemu-aarch64 " + program).c_str());
  std::filesystem::remove(program);
  EXPECT_EQ(result, 0);
}
#endif

}  // namespace
}  // namespace switchml
