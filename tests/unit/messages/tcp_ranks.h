// Ranks whose messages go over TCP on loopback.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "messages/tcp_message_transport.h"
#include "socket/address.h"
#include "socket/sockaddr.h"
#include "transport/tcp_socket.h"

namespace switchml::testing {

/// The doors of a group's ranks, and their transports.
class TcpRanks {
 public:
  explicit TcpRanks(int ranks) : doors_(std::make_shared<std::vector<MessageDoor>>()) {
    for (int rank = 0; rank < ranks; ++rank) {
      auto listener = listen_tcp(literal_address("127.0.0.1", 0).value());
      EXPECT_TRUE(listener.ok()) << listener.status().to_string();
      doors_->push_back({local_endpoint(listener->get()), 100U + static_cast<uint64_t>(rank)});
      listeners_.push_back(std::move(listener.value()));
    }
  }
  /// Once of each rank.
  std::unique_ptr<MessageTransport> transport(int rank) {
    TcpMessageOptions options;
    options.rank = rank;
    options.ranks = static_cast<int>(listeners_.size());
    options.listener = std::move(listeners_[static_cast<size_t>(rank)]);
    options.key = door(rank).key;
    options.find_door = [doors = doors_](int other) { return (*doors)[static_cast<size_t>(other)]; };
    return std::make_unique<TcpMessageTransport>(std::move(options));
  }
  MessageDoor& door(int rank) { return (*doors_)[static_cast<size_t>(rank)]; }

 private:
  const std::shared_ptr<std::vector<MessageDoor>> doors_;
  std::vector<Fd> listeners_;
};

}  // namespace switchml::testing
