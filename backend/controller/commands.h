// The controller's commands to switches. The core writes them, and its caller carries them out: the core does no I/O,
// so tests carry them out on switches of their own.
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

/// The parent to which a switch sends its aggregates, as this worker.
struct ParentLink {
  uint32_t worker = 0;
  SwitchPort parent;
};

struct Install {
  SessionId id;
  int shards = 1;
  int slots = 0;
  size_t payload_bytes = 0;
  std::vector<uint32_t> members;
  std::vector<uint32_t> pages;
  std::optional<ParentLink> uplink;
  bool exact = false;
  uint64_t session_key = 0;  // Key of an exact session's checksums.
};

/// One end of an unreliable queue pair, with the memory to write to.
struct QueuePair {
  uint32_t number = 0;
  uint32_t first_psn = 0;  // The first number of the packets that it sends.
  uint32_t rkey = 0;
  uint64_t address = 0;

  friend bool operator==(const QueuePair& a, const QueuePair& b) {
    return a.number == b.number && a.first_psn == b.first_psn && a.rkey == b.rkey && a.address == b.address;
  }
};

struct SetMember {
  SessionId id;
  uint32_t worker = 0;
  int shard = 0;  // -1: all.
  SwitchPort place;
  std::optional<QueuePair> pair = std::nullopt;  // None: datagrams.
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
  SwitchPort to;
};

struct Command {
  template <typename T>
  Command(int at_switch, T command) : at(at_switch), what(std::move(command)) {}

  int at;  // The switch: an index into Topology::switches.
  std::variant<Install, SetMember, Remove, Contributors, PacketOut> what;
};

/// Commands that belong together. Those of one switch must be carried out in order, and after one that fails the others
/// of that switch are left out; switches need not wait for each other. When all are finished, Sessions::done() is
/// called, unless `id` is 0.
struct Work {
  uint64_t id = 0;
  std::vector<Command> commands;
};

struct CommandResult {
  bool ok = false;
  std::string problem;                           // Set unless ok.
  std::vector<uint32_t> members;                 // Contributors.
  uint64_t dropped_length = 0;                   // Contributors: the switch's counter, the job's or all jobs'.
  std::optional<QueuePair> pair = std::nullopt;  // SetMember with a pair: the switch's end.
};

/// The answer to Sessions::open().
struct OpenAnswer {
  uint64_t ticket = 0;
  std::optional<Refusal> refusal;
  wire::OpenReply granted;                 // Set if there is no refusal.
  std::vector<Endpoint> switch_addresses;  // Index: rank.
};

/// The consequences of an event. Works must be begun in the order in which events gave them.
struct Effects {
  std::vector<Work> works;
  std::vector<OpenAnswer> answers;
};

}  // namespace switchml::controller
