#include "controllerd/metrics.h"

#include <gtest/gtest.h>

#include "fixture.h"
#include "http_client.h"

namespace switchml {
namespace {

TEST(Metrics, AreServedForPrometheus) {
  Fabric fabric;
  Dispatcher dispatcher(fabric.topology, 42, grpc::InsecureChannelCredentials());
  dispatcher.connect();
  ASSERT_TRUE(all_connected(dispatcher));
  ASSERT_FALSE(dispatcher.open(Fabric::request()).refusal.has_value());
  const auto metrics = serve_metrics("127.0.0.1:0", dispatcher);
  ASSERT_TRUE(metrics.ok()) << metrics.status().message();
  const std::string text = http_get(metrics.value()->local(), "/metrics");
  for (const char* const line :
       {"\nswitchml_controller_sessions 1\n", "\nswitchml_controller_sessions_opened_total 1\n",
        "\nswitchml_switch_connected{switch=\"leaf2\"} 1\n",
        "\nswitchml_switch_packets_received_total{switch=\"spine\",job=\"3\"} 5\n",
        "# TYPE switchml_session_workers gauge\n", "group=\"test\"", "\nswitchml_controller_joins_refused_total 0\n",
        "\nswitchml_controller_silent_paths_total 0\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << " is not in\n" << text;
  }
  EXPECT_EQ(text.find("Bad-Name"), std::string::npos) << "no name for Prometheus";
}

}  // namespace
}  // namespace switchml
