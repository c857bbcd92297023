// Switches for ranks that are threads of this process.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "base/config.h"
#include "socket/address.h"
#include "switchd/server.h"

namespace switchml {

inline Endpoint endpoint_of(const std::string& text) {
  auto endpoint = resolve_address(text, "test");
  EXPECT_TRUE(endpoint.ok()) << endpoint.status().to_string();
  return endpoint.value();
}

/// A standalone switch; `options.listen` is overwritten.
inline std::unique_ptr<SwitchServer> start_switch(ServerOptions options = {}, const std::string& at = "127.0.0.1:0") {
  options.listen = endpoint_of(at);
  auto server = SwitchServer::start(options);
  EXPECT_TRUE(server.ok()) << server.status().to_string();
  return server.ok() ? std::move(server.value()) : nullptr;
}

/// A port of loopback without a listener.
inline Endpoint closed_port() { return start_switch()->local(); }

/// The settings of ranks on one host that use a switch, which is embedded in rank 0 if no other is named.
inline Config quick_config(Duration timeout = seconds(10)) {
  Config config;
  config.connect_timeout = timeout;
  config.transport = "udp";
  return config;
}

}  // namespace switchml
