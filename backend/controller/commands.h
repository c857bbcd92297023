// What the controller tells switches. The core writes commands, and whoever runs it carries them out: the core itself
// does no I/O, so tests carry them out on switches of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "controller/refusal.h"
#include "controller/topology.h"
#include "wire/packet.h"

namespace switchml::controller {

struct SessionId {
  uint8_t job = 0;
  uint32_t epoch = 0;
};

/// Where a switch hands its aggregates to, and as which worker.
struct Uplink {
  uint32_t worker = 0;
  Place parent;
};

struct Install {
  SessionId id;
  int shards = 1;
  int slots = 0;
  size_t payload_bytes = 0;
  std::vector<uint32_t> members;
  std::vector<uint32_t> pages;
  std::optional<Uplink> uplink;
  bool exact = false;
  uint64_t session_key = 0;  // of an exact session's checksums
};

/// One end of an unreliable queue pair: how to reach it, and where to write.
struct QueuePair {
  uint32_t number = 0;
  uint32_t first_psn = 0;  // of what it sends
  uint32_t rkey = 0;
  uint64_t address = 0;

  friend bool operator==(const QueuePair& a, const QueuePair& b) {
    return a.number == b.number && a.first_psn == b.first_psn && a.rkey == b.rkey && a.address == b.address;
  }
};

struct SetMember {
  SessionId id;
  uint32_t worker = 0;
  int shard = 0;  // -1: all
  Place place;
  std::optional<QueuePair> pair = std::nullopt;  // none: datagrams
};

struct Remove {
  SessionId id;
};

struct Contributors {
  SessionId id;
  uint16_t slot = 0;
  uint32_t seq = 0;
};

struct PacketOut {
  std::vector<uint8_t> payload;
  Place to;
};

struct Command {
  template <typename T>
  Command(int at_switch, T command) : at(at_switch), what(std::move(command)) {}

  int at;  // the switch: an index into Topology::switches
  std::variant<Install, SetMember, Remove, Contributors, PacketOut> what;
};

/// Commands that belong together. Those of one switch must be carried out in order, and after one that fails the others
/// of that switch are left out; switches need not wait for each other. When all are through, Sessions::done() is told,
/// unless `id` is 0.
struct Work {
  uint64_t id = 0;
  std::vector<Command> commands;
};

/// What came of one command.
struct CommandResult {
  bool ok = false;
  std::string problem;            // unless ok
  std::vector<uint32_t> members;  // of Contributors
  uint64_t dropped_length = 0;    // of Contributors: what the switch counts, of all jobs if it cannot tell
  std::optional<QueuePair> pair = std::nullopt;  // of SetMember with a pair: the switch's end
};

/// The answer to Sessions::open().
struct OpenAnswer {
  uint64_t ticket = 0;
  std::optional<Refusal> refusal;
  wire::OpenReply granted;                 // without refusal
  std::vector<Endpoint> switch_addresses;  // by rank
};

/// What follows from an event. Works must be begun in the order in which events gave them.
struct Effects {
  std::vector<Work> works;
  std::vector<OpenAnswer> answers;
};

}  // namespace switchml::controller
