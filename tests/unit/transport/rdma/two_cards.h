// Two transports on cards that are not there, and a tensor.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "introduced.h"
#include "transport/harness.h"
#include "transport/rdma/pair.h"

namespace switchml {

/// Each has met nobody.
class Rdma : public ::testing::Test {
 protected:
  static constexpr size_t kReceives = 64;

  void open(const fake_verbs::Behaviour& behaviour = {}, RdmaOptions options = {}) {
    options.max_frame_bytes = std::min<size_t>(options.max_frame_bytes, 8256);
    options.receive_frames = kReceives;
    library_.emplace(behaviour);
    a_ = make(options, 1);
    b_ = make(options, 2);
  }
  static std::unique_ptr<Transport> make(RdmaOptions options, uint16_t port) {
    options.library = SWITCHML_FAKE_VERBS;
    options.local = literal_address("127.0.0.1", port).value();
    auto made = make_rdma_transport(options);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return made.ok() ? std::move(made.value()) : nullptr;
  }
  static uint32_t number_of(const wire::Introduction& introduction) {
    return rdma::PairInfo::read(introduction, wire::Service::kReliableConnected)->number;
  }

  std::optional<fake_verbs::Library> library_;  // ends last
  std::unique_ptr<Transport> a_, b_;
};

/// One tensor.
struct OneTensor : TensorMemory {
  explicit OneTensor(size_t size, uint8_t with = 0) : bytes(size, with) {}
  Extent extent_of(const void* data, size_t size) const override {
    const auto* const at = static_cast<const uint8_t*>(data);
    const bool inside = at >= bytes.data() && at + size <= bytes.data() + bytes.size();
    return inside ? Extent{const_cast<uint8_t*>(bytes.data()), bytes.size()} : Extent{};
  }
  Bytes bytes;
};

}  // namespace switchml
