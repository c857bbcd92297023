#include "path/path_report.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "base/log.h"
#include "path/path_speed.h"

namespace switchml {
namespace {

/// As it comes through the store.
Blob sent(const Blob& blob) { return Blob::parse(blob.encode()).value(); }

Blob with(Blob blob, const std::string& key, const std::string& value) {
  blob.set(key, value);
  return sent(blob);
}

TEST(PathReport, TheLeastFrameCountsAndAnyPathThatLeavesTheHost) {  // [PATH-2]
  const Blob near = sent(path_report(65507, false, ""));
  const Blob far = sent(path_report(1472, true, ""));
  const Blob jumbo = sent(path_report(8972, false, "no room"));
  EXPECT_EQ(jumbo.text("why"), "no room");
  EXPECT_EQ(near.text("why"), "");

  const auto all = summarize_paths({near, far, jumbo});
  ASSERT_TRUE(all.ok()) << all.status().to_string();
  EXPECT_EQ(all->frame_bytes, 1472U);
  EXPECT_TRUE(all->leaves_host);
  const auto here = summarize_paths({jumbo, near});
  ASSERT_TRUE(here.ok());
  EXPECT_EQ(here->frame_bytes, 8972U);
  EXPECT_FALSE(here->leaves_host);
  const auto one = summarize_paths({near});
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->frame_bytes, kMaxPayloadBytes + 24) << "no packet is larger";
}

TEST(PathReport, TheFirstPathThatPacketsDoNotPassIsNamed) {
  const Blob good = sent(path_report(1472, true, "")), deaf = sent(path_report(1472, true, "", "s (in rank 2)"));
  EXPECT_EQ(summarize_paths({good, good})->tcp_alone, "");
  EXPECT_EQ(summarize_paths({good, deaf, deaf})->tcp_alone, "from rank 1 to s (in rank 2)");
}

TEST(PathReport, APathWithoutASizeIsAMismatch) {
  const Blob good = sent(path_report(1472, true, ""));
  for (const char* size : {"", "-1", "many", "4294967296"}) {
    const auto summary = summarize_paths({good, with(good, "frame_bytes", size)});
    ASSERT_FALSE(summary.ok()) << size;
    EXPECT_EQ(summary.status().code(), Code::kMismatch);
  }
}

TEST(PathReport, TheLeastPayloadCounts) {  // [PATH-10]
  const Blob all = sent(payload_report(8192));
  const Blob less = sent(payload_report(1024));
  const Blob more = sent(payload_report(16384));
  const auto least = [](const std::vector<Blob>& reports) { return least_payload(reports, 8192, "group g").value(); };
  EXPECT_EQ(least({all, all}), 8192U);
  EXPECT_EQ(least({less, all, more}), 1024U);
  EXPECT_EQ(least({all, more, less}), 1024U);
  EXPECT_EQ(least({more, more}), 8192U) << "what the session has";
}

TEST(PathReport, ARankWhosePathCarriesLessIsLogged) {
  set_log_level(LogLevel::kInfo);
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(least_payload({payload_report(8192), payload_report(1024)}, 8192, "group g").ok());
  const std::string log = ::testing::internal::GetCapturedStderr();
  set_log_level(LogLevel::kWarning);
  EXPECT_NE(log.find("group g: between rank 1 and the switch 1024 bytes of payload pass in one packet, not 8192"),
            std::string::npos)
      << log;
  EXPECT_EQ(log.find("rank 0"), std::string::npos) << log;
}

TEST(PathReport, ARankThatSaysNoPayloadIsNamed) {
  const Blob good = payload_report(1024);
  const auto least = least_payload({good, with(good, "payload", "")}, 1024, "group g");
  ASSERT_FALSE(least.ok());
  EXPECT_EQ(least.status().code(), Code::kMismatch);
  EXPECT_EQ(least.status().message(), "rank 1 does not say which payload passes");
}

TEST(PathReport, OnlyAllowedPayloadsAreRead) {
  for (const size_t payload : {size_t{256}, size_t{512}, size_t{1024}, size_t{1408}, kMaxPayloadBytes}) {
    const auto read = read_payload(sent(payload_report(payload)));
    ASSERT_TRUE(read.ok()) << payload;
    EXPECT_EQ(read.value(), payload);
  }
  for (const char* payload : {"0", "", "255", "1438", "65536", "x"}) {
    const auto read = read_payload(with(Blob(), "payload", payload));
    ASSERT_FALSE(read.ok()) << payload;
    EXPECT_EQ(read.status().code(), Code::kMismatch);
  }
}

TEST(PathReport, TheLongestPathAndTheSmallestQueueCount) {
  const Blob slow = sent(speed_report({390, 0}, 425984, "", ""));
  const Blob quick = sent(speed_report({12, 0}, 212992, "", ""));
  const PathNeeds both = needs_of_paths({quick, slow});
  EXPECT_EQ(both.chunks, 390U);
  EXPECT_EQ(both.queue_bytes, 212992U);
  const PathNeeds with_silent = needs_of_paths({Blob(), slow});
  EXPECT_EQ(with_silent.chunks, 390U);
  EXPECT_EQ(with_silent.queue_bytes, 425984U);
}

// A rank that began late, or that was kept from its processor, says too much or too little.
TEST(PathReport, TheRateIsTheMedianOfThoseThatKnowIt) {  // [RATE-8]
  const auto rate = [](double mbit) { return sent(speed_report({0, mbit}, 1, "", "")); };
  EXPECT_EQ(needs_of_paths({rate(900), rate(1e30), rate(950)}).rate, 950U);
  EXPECT_EQ(needs_of_paths({rate(900), Blob(), rate(0)}).rate, 900U);
  EXPECT_EQ(needs_of_paths({rate(7000), rate(900)}).rate, 900U) << "of two the lower one";
  EXPECT_EQ(needs_of_paths({rate(0), Blob()}).rate, 0U);
}

TEST(PathReport, OneThatTcpDoesNotReachIsNamed) {
  const auto report = [](const std::string& why) { return sent(speed_report({}, 1, why, "")); };
  EXPECT_EQ(needs_of_paths({report(""), report("10.0.0.1:5/tcp: refused"), report("other")}).why_no_tcp,
            "from rank 1 to 10.0.0.1:5/tcp: refused");
  EXPECT_EQ(needs_of_paths({report(""), Blob()}).why_no_tcp, "");
}

TEST(PathReport, OneWithoutACardIsNamed) {
  const auto report = [](const std::string& why) { return sent(speed_report({}, 1, "", why)); };
  EXPECT_EQ(needs_of_paths({report(""), report("there is none"), report("other")}).why_no_rdma,
            "rank 1: there is none");
  EXPECT_EQ(needs_of_paths({report(""), Blob()}).why_no_rdma, "");
}

TEST(PathReport, WhatIsNotKnownDoesNotCount) {
  const PathNeeds none = needs_of_paths({Blob(), speed_report({}, 0, "", "")});
  EXPECT_EQ(none.chunks, 0U);
  EXPECT_EQ(none.queue_bytes, UINT64_MAX);
  const PathNeeds odd = needs_of_paths({speed_report({kMostChunksOnPath + 1, 0}, 1, "", "")});
  EXPECT_EQ(odd.chunks, 0U) << "more than a path can hold";
  EXPECT_EQ(odd.queue_bytes, 1U);
  EXPECT_EQ(needs_of_paths({speed_report({kMostChunksOnPath, 0}, 1, "", "")}).chunks, kMostChunksOnPath);
}

}  // namespace
}  // namespace switchml
