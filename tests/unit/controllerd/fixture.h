// A topology of fake agents, and requests for it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "controllerd/dispatcher.h"
#include "fake_agent.h"
#include "socket/address.h"
#include "wire/control.h"

namespace switchml {

inline Endpoint literal(const std::string& text) { return literal_address(text, 0).value(); }

/// spine (0) over leaf1 (1) and leaf2 (2), with worker 10.0.1.1 at leaf1 and 10.0.1.2 at leaf2.
class Fabric {
 public:
  Fabric() {
    const char* const names[] = {"spine", "leaf1", "leaf2"};
    for (int i = 0; i < 3; ++i) {
      controller::SwitchSpec spec;
      spec.name = names[i];
      spec.agent = agents[i].address();
      spec.address = literal("10.0.0." + std::to_string(i + 1) + ":48879");
      spec.parent = i == 0 ? controller::kNone : 0;
      topology.switches.push_back(spec);
    }
    for (int i = 1; i <= 2; ++i) {
      controller::WorkerSpec worker;
      worker.name = "w" + std::to_string(i);
      worker.addresses = {literal("10.0.1." + std::to_string(i))};
      worker.attached = i;
      topology.workers.push_back(worker);
    }
  }
  static controller::OpenRequest request(uint64_t client_key = 1) {
    controller::OpenRequest asked;
    asked.client_key = client_key;
    asked.group = "test";
    asked.workers = 2;
    asked.shards = 1;
    asked.slots = 8;
    asked.payload_bytes = 1024;
    asked.ranks = {{literal("10.0.1.1")}, {literal("10.0.1.2")}};
    return asked;
  }

  FakeAgent agents[3];
  controller::Topology topology;
};

inline bool all_connected(Dispatcher& dispatcher) {
  return eventually([&] {
    const auto views = dispatcher.switches();
    return std::all_of(views.begin(), views.end(), [](const SwitchView& view) { return view.connected; });
  });
}

}  // namespace switchml
