#include "base/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace switchml {
namespace {

class Log : public ::testing::Test {
 protected:
  void SetUp() override {
    set_log_level(LogLevel::kError);
    SWITCHML_LOG(kDebug) << "nothing";
    // glog speaks about itself when it starts, if at all: here, not in what the tests capture.
    ::testing::internal::CaptureStderr();
    SWITCHML_LOG(kError) << "first line";
    ::testing::internal::GetCapturedStderr();
  }
  void TearDown() override { set_log_level(LogLevel::kWarning); }

  static std::string written(LogLevel level) {
    set_log_level(level);
    ::testing::internal::CaptureStderr();
    SWITCHML_LOG(kDebug) << "a debug line";
    SWITCHML_LOG(kInfo) << "an info line " << 1;
    SWITCHML_LOG(kWarning) << "a warning line " << 2.5;
    SWITCHML_LOG(kError) << "an error line " << std::string("x");
    return ::testing::internal::GetCapturedStderr();
  }
  static long lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }
};

TEST_F(Log, OffWritesNothing) { EXPECT_EQ(written(LogLevel::kOff), ""); }

TEST_F(Log, WritesOneLineForEachSevereEnough) {
  EXPECT_EQ(lines(written(LogLevel::kError)), 1);
  EXPECT_EQ(lines(written(LogLevel::kWarning)), 2);
  EXPECT_EQ(lines(written(LogLevel::kInfo)), 3);
  EXPECT_EQ(lines(written(LogLevel::kDebug)), 4);
}

TEST_F(Log, ALineHoldsTextSeverityAndPlace) {
  const std::string text = written(LogLevel::kError);
  EXPECT_EQ(text[0], 'E') << text;
  EXPECT_NE(text.find("switchml: an error line x\n"), std::string::npos) << text;
  EXPECT_NE(text.find("log_test.cc:"), std::string::npos) << text;
  EXPECT_EQ(text.find("warning"), std::string::npos) << text;
}

TEST_F(Log, WhatIsNotWrittenIsNotComputed) {
  set_log_level(LogLevel::kError);
  int computed = 0;
  const auto compute = [&] { return ++computed; };
  SWITCHML_LOG(kInfo) << compute();
  EXPECT_EQ(computed, 0);
  EXPECT_FALSE(log_enabled(LogLevel::kInfo));
  EXPECT_TRUE(log_enabled(LogLevel::kError));
}

TEST(LogLevels, HaveNamesThatAreReadBack) {
  for (const LogLevel level :
       {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError, LogLevel::kOff}) {
    EXPECT_EQ(parse_log_level(to_string(level)), level);
  }
  EXPECT_STREQ(to_string(LogLevel::kOff), "off");
  for (const char* const text : {"", "Info", "warn", "info "}) EXPECT_FALSE(parse_log_level(text).has_value()) << text;
}

}  // namespace
}  // namespace switchml
