#include "base/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace switchml {
namespace {

TEST(Status, OkCarriesNoMessage) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), Code::kOk);
  EXPECT_EQ(status.message(), "");
  EXPECT_EQ(status.to_string(), "ok");
  EXPECT_TRUE(Status::ok_status().ok());
}

TEST(Status, AnErrorSaysItsKindAndItsReason) {
  const Status status(Code::kTimeout, "no result for 30 s");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.to_string(), "timeout: no result for 30 s");
  const Status copy = status;
  EXPECT_EQ(copy.message(), status.message());
  EXPECT_EQ(copy.code(), Code::kTimeout);
}

TEST(Status, EveryCodeHasANameOfItsOwn) {
  std::set<std::string> names;
  for (const Code code : {Code::kOk, Code::kInvalidArgument, Code::kUnsupported, Code::kTimeout, Code::kUnavailable,
                          Code::kMismatch, Code::kAborted, Code::kInternal}) {
    names.insert(to_string(code));
  }
  EXPECT_EQ(names.size(), 8U);
  EXPECT_EQ(names.count("unknown code"), 0U);
}

TEST(Result, HoldsAValue) {
  Result<std::string> result(std::string("abc"));
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result.status().ok());
  EXPECT_EQ(result.value(), "abc");
  EXPECT_EQ(result->size(), 3U);
  result.value() += "d";
  EXPECT_EQ(result.value(), "abcd");
}

TEST(Result, HoldsWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(5));
  const std::unique_ptr<int> taken = std::move(result.value());
  EXPECT_EQ(*taken, 5);
}

TEST(Result, OrTheReasonThatThereIsNone) {
  const Result<int> result(Status(Code::kUnavailable, "no switch"));
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().to_string(), "unavailable: no switch");
}

TEST(ResultDeathTest, TakingTheValueOfAnErrorIsABug) {
  const Result<int> result(Status(Code::kInternal, "x"));
  EXPECT_DEATH(static_cast<void>(result.value()), "assertion failed: ok\\(\\)");
}

TEST(ResultDeathTest, AnOkStatusIsNoReason) {
  EXPECT_DEATH(static_cast<void>(Result<int>(Status())), "assertion failed");
}

}  // namespace
}  // namespace switchml
