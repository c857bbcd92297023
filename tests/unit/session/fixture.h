// Sessions of ranks that are threads of this process.
#pragma once

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/switches.h"
#include "session/session.h"
#include "store/map_store.h"

namespace switchml {

/// A switch of its own at an address that is not loopback, because the hosts are several.
inline std::unique_ptr<SwitchServer> start_for_all(Config* config) {
  auto server = start_switch({}, "0.0.0.0:0");
  const auto address = announced_address("");
  EXPECT_TRUE(address.ok()) << address.status().to_string();
  config->switch_address = to_string(with_port(address.value(), port_of(server->local())));
  return server;
}

/// Ranks on one host whose user has set nothing: they share memory.
inline Config preset_config(Duration timeout = seconds(10)) {
  Config config = quick_config(timeout);
  config.transport = Config().transport;
  return config;
}

/// An all-reduce (SUM) in place.
template <typename T>
Collective in_place(std::vector<T>* values, ElementType type) {
  Collective collective;
  collective.type = type;
  collective.operands()->input = values->data();
  collective.operands()->output.data = values->data();
  collective.count = values->size();
  collective.operands()->output.end = values->size();
  return collective;
}

/// Begins a collective.
inline std::future<Status> submit(Session& session, Collective collective, Duration limit = seconds(20)) {
  auto done = std::make_shared<std::promise<Status>>();
  collective.deadline = monotonic_now() + limit;
  collective.done = [done](const Status& status) { done->set_value(status); };
  auto result = done->get_future();
  session.engine().submit(std::move(collective));
  return result;
}

/// One all-reduce, to its end.
inline Status all_reduce(Session& session, std::vector<float>* values, Duration limit = seconds(20)) {
  return submit(session, in_place(values, ElementType::kFloat32), limit).get();
}

}  // namespace switchml
