#include "base/metrics_text.h"

#include <gtest/gtest.h>

namespace switchml {
namespace {

TEST(MetricsText, AMetricHasOneHeadAndItsSamplesBelow) {
  MetricsText out;
  out.gauge("b_bytes", "bytes", {}, 0.5);
  out.counter("a", "events", {{"rank", "0"}, {"group", "x"}}, uint64_t{1} << 63);
  out.gauge("b_bytes", "another text", {{"rank", "1"}}, 1e300);
  out.counter("a", "events", {{"rank", "1"}}, 0);
  EXPECT_EQ(out.text(),
            "# HELP a_total events\n# TYPE a_total counter\n"
            "a_total{rank=\"0\",group=\"x\"} 9223372036854775808\na_total{rank=\"1\"} 0\n"
            "# HELP b_bytes bytes\n# TYPE b_bytes gauge\n"
            "b_bytes 0.5\nb_bytes{rank=\"1\"} 1.0000000000000001e+300\n");
}

TEST(MetricsText, WhatWouldEndALineOrAValueIsEscaped) {
  MetricsText out;
  out.gauge("a", "one\n\"two\" \\", {{"group", "a\"b\\c\nd"}}, 1);
  EXPECT_EQ(out.text(), "# HELP a one\\n\"two\" \\\\\n# TYPE a gauge\na{group=\"a\\\"b\\\\c\\nd\"} 1\n");
}

TEST(MetricsText, ThereIsNothingWithoutSamples) { EXPECT_EQ(MetricsText().text(), ""); }

}  // namespace
}  // namespace switchml
