// Ranks whose messages go over TCP on loopback, as they are or sealed.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/random.h"
#include "messages/tcp_message_transport.h"
#include "socket/address.h"
#include "socket/sockaddr.h"
#include "transport/tcp_socket.h"

namespace switchml::testing {

/// The doors of a group's ranks, and their transports.
class TcpRanks {
 public:
  TcpRanks(int ranks, bool sealed)
      : doors_(std::make_shared<std::vector<MessageDoor>>()), owners_(static_cast<size_t>(ranks)) {
    for (int rank = 0; rank < ranks; ++rank) {
      auto listener = listen_tcp(literal_address("127.0.0.1", 0).value());
      EXPECT_TRUE(listener.ok()) << listener.status().to_string();
      doors_->push_back({local_endpoint(listener->get()), 100U + static_cast<uint64_t>(rank), std::nullopt});
      if (sealed) {
        owners_[static_cast<size_t>(rank)] =
            std::make_unique<const seal::StreamDoorOwner>(random_seal_key(), random_bytes);
        doors_->back().sealed = owners_[static_cast<size_t>(rank)]->door();
      }
      listeners_.push_back(std::move(listener.value()));
    }
  }
  /// Once of each rank.
  std::unique_ptr<MessageTransport> transport(int rank) {
    TcpMessageOptions options;
    options.rank = rank;
    options.ranks = static_cast<int>(listeners_.size());
    options.listener = std::move(listeners_[static_cast<size_t>(rank)]);
    options.sealed = std::move(owners_[static_cast<size_t>(rank)]);
    options.key = door(rank).key;
    options.grace = milliseconds(200);
    options.find_door = [doors = doors_](int other) { return (*doors)[static_cast<size_t>(other)]; };
    return std::make_unique<TcpMessageTransport>(std::move(options));
  }
  MessageDoor& door(int rank) { return (*doors_)[static_cast<size_t>(rank)]; }

 private:
  const std::shared_ptr<std::vector<MessageDoor>> doors_;
  std::vector<Fd> listeners_;
  std::vector<std::unique_ptr<const seal::StreamDoorOwner>> owners_;
};

}  // namespace switchml::testing
