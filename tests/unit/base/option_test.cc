#include "base/option.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "temporary_file.h"

namespace switchml {
namespace {

/// What is there after each text that is allowed, in turn; and that others change nothing.
void expect_takes(const OptionValue& value, const std::vector<std::pair<std::string, std::string>>& good,
                  const std::vector<std::string>& bad) {
  for (const auto& [text, printed] : good) {
    EXPECT_TRUE(value.take(text)) << text;
    EXPECT_EQ(value.print(), printed) << text;
    for (const std::string& other : bad) {
      EXPECT_FALSE(value.take(other)) << other;
      EXPECT_EQ(value.print(), printed) << other;
    }
  }
}

TEST(Option, AMistakeIsNamedWithItsValueAndWhatIsAllowed) {
  const Status status = not_allowed("--slots", "many", "1 to 5");
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.message(), "--slots=\"many\" is not allowed: use 1 to 5");
}

TEST(Option, NumbersSayTheirBounds) {
  int whole = 3;
  expect_takes(value::whole(1, 64, &whole), {{"1", "1"}, {"64", "64"}}, {"0", "65", "-1", "1x", ""});
  EXPECT_EQ(value::whole(1, 64, &whole, " (threads)").allowed, "1 to 64 (threads)");
  std::optional<uint64_t> perhaps;
  EXPECT_EQ(value::whole(0, 9, &perhaps).print(), "");
  expect_takes(value::whole(0, 9, &perhaps), {{"7", "7"}}, {"10"});
  double real = 0;
  expect_takes(value::real(0, 10, &real), {{"0.5", "0.5"}, {"1e1", "10"}}, {"11", "x"});
  EXPECT_EQ(value::real(0.1, 10, &real).allowed, "0.1 to 10");
}

TEST(Option, QuantitiesGoToTheirUnits) {
  size_t bytes = 0;
  expect_takes(value::mebibytes(1, 1048576, &bytes, " (MiB)"), {{"2", "2"}}, {"0", "1048577", "1.5"});
  EXPECT_EQ(bytes, size_t{2} << 20);
  EXPECT_EQ(value::mebibytes(1, 1048576, &bytes, " (MiB)").allowed, "1 to 1048576 (MiB)");
  Duration time{};
  expect_takes(value::whole_seconds(1, 86400, &time), {{"5", "5"}}, {"0", "1.5", "1e3"});
  EXPECT_EQ(time, seconds(5));
  expect_takes(value::duration(0.1, 60000, milliseconds(1), &time, ""), {{"0.5", "0.5"}, {"200", "200"}},
               {"0.05", "s"});
  EXPECT_EQ(time, milliseconds(200));
  expect_takes(value::payload_size(&bytes), {{"1408", "1408"}}, {"1000", "auto"});
}

TEST(Option, TextsAreTakenAsTheyAre) {
  std::string out;
  expect_takes(value::text(&out, "anything"), {{"a b", "a b"}, {"", ""}}, {});
  expect_takes(value::word("NAME", &out), {{"a", "a"}}, {""});
  EXPECT_EQ(value::word("NAME", &out).allowed, "NAME");
  EXPECT_TRUE(value::word("NAME", &out).plain);
  expect_takes(value::one_of({"a", "b", "c"}, &out, "; c not today"), {{"a", "a"}, {"c", "c"}}, {"d", "", "ab"});
  EXPECT_EQ(value::one_of({"a", "b", "c"}, &out, "; c not today").allowed, "a, b or c; c not today");
  expect_takes(value::host_port(&out), {{"h:0", "h:0"}, {"[::1]:7", "[::1]:7"}}, {"h", "h:65536", ":1", ""});
  LogLevel level = LogLevel::kInfo;
  expect_takes(value::log_level(&level), {{"off", "off"}}, {"loud", ""});
  EXPECT_EQ(value::log_level(&level).allowed, "debug, info, warning, error or off");
}

TEST(Option, AutoStandsForAValue) {
  int slots = 0;
  const OptionValue value = value::or_auto(&slots, 0, value::whole(4, 16, &slots));
  EXPECT_EQ(value.print(), "auto");
  expect_takes(value, {{"8", "8"}, {"auto", "auto"}}, {"0", "3", "Auto"});
  EXPECT_EQ(value.allowed, "auto, or 4 to 16");
}

TEST(Option, FilesAreReadAtOnce) {
  const TemporaryFile pem("CERT\nmore");
  std::string out;
  EXPECT_TRUE(value::pem_file(&out).take(pem.path()));
  EXPECT_EQ(out, "CERT\nmore");
  EXPECT_FALSE(value::pem_file(&out).take("/nonexistent"));
  const TemporaryFile token("sesame open");
  EXPECT_TRUE(value::secret_file(&out).take(token.path()));
  EXPECT_FALSE(value::secret_file(&out).take("/nonexistent"));
  EXPECT_EQ(out, "sesame");
}

TEST(Option, AFlagIsSetByBeingThere) {
  bool out = false;
  EXPECT_TRUE(value::flag(&out).take(""));
  EXPECT_TRUE(out);
  EXPECT_EQ(value::flag(&out).placeholder, "");
}

}  // namespace
}  // namespace switchml
