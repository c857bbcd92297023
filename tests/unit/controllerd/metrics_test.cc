#include "controllerd/metrics.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "fixture.h"
#include "socket/fd.h"
#include "socket/sockaddr.h"

namespace switchml {
namespace {

/// A TCP port that is free now.
int free_port() {
  const Fd fd(::socket(AF_INET, SOCK_STREAM, 0));
  const Endpoint any = literal("127.0.0.1:0");
  EXPECT_EQ(::bind(fd.get(), as_sockaddr(any), any.size), 0);
  return port_of(local_endpoint(fd.get()));
}

std::string get_metrics(int port) {
  const Fd fd(::socket(AF_INET, SOCK_STREAM, 0));
  const Endpoint to = literal("127.0.0.1:" + std::to_string(port));
  EXPECT_EQ(::connect(fd.get(), as_sockaddr(to), to.size), 0);
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  EXPECT_EQ(::send(fd.get(), request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
  std::string answer;
  char bytes[4096];
  for (ssize_t n = 0; (n = ::recv(fd.get(), bytes, sizeof bytes, 0)) > 0;) answer.append(bytes, static_cast<size_t>(n));
  return answer;
}

TEST(Metrics, AreServedForPrometheus) {
  Fabric fabric;
  Dispatcher dispatcher(fabric.topology, 42, grpc::InsecureChannelCredentials());
  dispatcher.connect();
  ASSERT_TRUE(all_connected(dispatcher));
  ASSERT_FALSE(dispatcher.open(Fabric::request()).refusal.has_value());
  const int port = free_port();
  const auto metrics = Metrics::serve("127.0.0.1:" + std::to_string(port), dispatcher);
  if (!metrics.ok() && metrics.status().code() == Code::kUnsupported) GTEST_SKIP() << metrics.status().message();
  ASSERT_TRUE(metrics.ok()) << metrics.status().message();
  const std::string text = get_metrics(port);
  for (const char* const line :
       {"\nswitchml_controller_sessions 1\n", "\nswitchml_controller_sessions_opened_total 1\n",
        "\nswitchml_switch_connected{switch=\"leaf2\"} 1\n",
        "\nswitchml_switch_packets_received_total{switch=\"spine\",job=\"3\"} 5\n",
        "# TYPE switchml_session_workers gauge\n", "group=\"test\"", "\nswitchml_controller_joins_refused_total 0\n",
        "\nswitchml_controller_silent_paths_total 0\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << " is not in\n" << text;
  }
  EXPECT_EQ(text.find("Bad-Name"), std::string::npos) << "no name for Prometheus";
  const auto again = Metrics::serve("127.0.0.1:" + std::to_string(port), dispatcher);
  ASSERT_FALSE(again.ok());
  EXPECT_NE(again.status().message().find("--metrics=\"127.0.0.1:" + std::to_string(port) + "\""), std::string::npos);
}

}  // namespace
}  // namespace switchml
