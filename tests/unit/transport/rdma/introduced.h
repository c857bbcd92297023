// RDMA transports, over cards that are not there or over those of this host. Each has met all others of its network.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fake_library.h"
#include "socket/address.h"
#include "transport/decorator.h"
#include "transport/rdma/rdma.h"

namespace switchml {

/// Tells each what it must know of the other.
inline void introduce(Transport& a, Transport& b) {
  const Endpoint a_at = a.local(), b_at = b.local();
  const auto of_a = a.queue_pairs()->queue_pair_for(b_at);
  ASSERT_TRUE(of_a.ok()) << of_a.status().to_string();
  ASSERT_TRUE(b.queue_pairs()->connect(a_at, of_a.value()).ok());
  const auto of_b = b.queue_pairs()->queue_pair_for(a_at);
  ASSERT_TRUE(of_b.ok()) << of_b.status().to_string();
  ASSERT_TRUE(a.queue_pairs()->connect(b_at, of_b.value()).ok());
}

/// Not thread-safe where transports are made or end.
class RdmaNetwork : public std::enable_shared_from_this<RdmaNetwork> {
 public:
  /// Over cards that are not there.
  RdmaNetwork(const fake_verbs::Behaviour& behaviour, const RdmaOptions& options)
      : library_(behaviour), options_(options), addresses_{"127.0.0.1"} {
    options_.library = SWITCHML_FAKE_VERBS;
  }
  /// Over the cards that have these addresses, by turns. Not in a process that has loaded the other library.
  RdmaNetwork(std::vector<std::string> addresses, const RdmaOptions& options)
      : options_(options), addresses_(std::move(addresses)) {
    options_.wish.emulated = true;
  }

  std::unique_ptr<Transport> make();
  /// Of cards that are not there.
  const fake_verbs::Library& library() const { return *library_; }
  void forget(Transport* transport) {
    members_.erase(std::remove(members_.begin(), members_.end(), transport), members_.end());
  }

 private:
  std::optional<const fake_verbs::Library> library_;
  RdmaOptions options_;
  const std::vector<std::string> addresses_;
  uint16_t next_port_ = 1;
  std::vector<Transport*> members_;
};

/// One of them, which leaves the network when it ends.
class Introduced final : public TransportDecorator {
 public:
  Introduced(std::unique_ptr<Transport> below, std::shared_ptr<RdmaNetwork> network)
      : TransportDecorator(*below), network_(std::move(network)), below_(std::move(below)) {}
  ~Introduced() override { network_->forget(below_.get()); }

 private:
  const std::shared_ptr<RdmaNetwork> network_;  // ends last
  const std::unique_ptr<Transport> below_;
};

inline std::unique_ptr<Transport> RdmaNetwork::make() {
  RdmaOptions options = options_;
  const uint16_t port = next_port_++;
  options.local = with_port(literal_address(addresses_[port % addresses_.size()], 0).value(), port);
  auto made = make_rdma_transport(options);
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  if (!made.ok()) return nullptr;
  for (Transport* other : members_) introduce(*other, *made.value());
  members_.push_back(made.value().get());
  return std::make_unique<Introduced>(std::move(made.value()), shared_from_this());
}

}  // namespace switchml
