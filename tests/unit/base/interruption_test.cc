#include "base/interruption.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace switchml {
namespace {

TEST(Interruption, ThrowsWhatTheCheckThrows) {
  check_interruption();
  set_interruption_check([] { throw std::runtime_error("Ctrl-C"); });
  EXPECT_THROW(check_interruption(), std::runtime_error);
  set_interruption_check(nullptr);
  check_interruption();
}

}  // namespace
}  // namespace switchml
