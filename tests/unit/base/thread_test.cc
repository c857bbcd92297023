#include "base/thread.h"

#include <gtest/gtest.h>

#include <string>

#include "no_threads.h"

namespace switchml {
namespace {

TEST(MakeThread, RunsTheBody) {
  bool ran = false;
  make_thread("a test", [&ran] { ran = true; }).join();
  EXPECT_TRUE(ran);
}

TEST(MakeThread, NamesPurposeAndLimitsWhereThereIsNone) {
  expect_in_child([] {
    if (!refuse_threads()) return kThreadsAreGiven;
    try {
      make_thread("a test", [] {}).join();
      return 1;
    } catch (const NoThread& none) {
      if (none.status().code() != Code::kInternal) return 2;
      const std::string text = none.status().message();
      return text.find("gives no thread for a test; allowed by ulimit -u") != std::string::npos ? 0 : 3;
    }
  });
}

}  // namespace
}  // namespace switchml
