// One switch as the controller knows it: what it can do, whether it answers, and what of it is given away.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/refusal.h"
#include "softswitch/grant.h"

namespace switchml::controller {

/// What a switch's agent says.
struct Capabilities {
  std::string kind;       // "software", "bmv2", "tofino"
  uint64_t instance = 0;  // another one: it has forgotten its sessions
  uint32_t protocol_version = 0;
  std::vector<size_t> payloads;  // sizes in bytes that it takes, ascending
  bool any_payload = false;      // every allowed size up to the largest of them
  bool whole_chunks = false;
  size_t members = 0;  // of one session, at most
  size_t jobs = 0;     // at most
  bool sum = false;
  bool max = false;
  bool trees = false;
  size_t pages = 0;  // 0: slots come from memory_bytes
  size_t page_slots = 0;
  uint64_t memory_bytes = 0;
  size_t receive_buffer_bytes = 0;
  std::string mac;
  size_t places = 0;   // of members of all sessions together, one for each shard of each; 0: no bound
  bool pairs = false;  // is the end of unreliable queue pairs
  bool exact = false;  // keeps contributions, and reduces elements of any type
};

/// What a session needs of a switch.
struct Needs {
  bool sum = true;
  bool max = true;
  bool tree = false;   // the session spans several switches
  bool pairs = false;  // ranks come to this switch by unreliable queue pairs
  size_t members = 1;  // at this switch
  size_t shards = 1;
  size_t payload_bytes = 0;  // at most; the switch must take some size up to it
};

class SwitchState {
 public:
  explicit SwitchState(std::string name) : name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  bool connected() const { return connected_; }
  /// Why it is not connected, or why it cannot be used although it is; empty if there is nothing to say.
  const std::string& problem() const { return problem_; }
  /// As the switch said last; nothing before it has been connected.
  const std::optional<Capabilities>& capabilities() const { return capabilities_; }

  /// The agent answers. True if it has forgotten what was installed since it answered last.
  bool connect(const Capabilities& capabilities);
  void disconnect(const std::string& problem);

  /// The reason why it cannot serve a session now, or ever; none if only slots may be missing.
  std::optional<Refusal> check(const Needs& needs) const;
  /// For grant(). Precondition: connected once.
  softswitch::GrantLimits limits(size_t members) const;
  /// Slots that a session of the largest payload could have now; 0 if it was never connected.
  size_t free_slots() const;
  size_t jobs() const { return taken_.size(); }

  /// Gives slots, and places for its members, to a job, within limits() and check(); returns the pages, if there are
  /// pages.
  std::vector<uint32_t> take(uint8_t job, uint32_t epoch, int slots, size_t slot_bytes, size_t places);
  /// The session is over: what it had is free as soon as its removal, which must precede whatever is installed next, is
  /// carried out.
  void release(uint8_t job);
  /// Sessions (job, epoch) whose removal the switch has not confirmed.
  const std::set<std::pair<uint8_t, uint32_t>>& unconfirmed() const { return unconfirmed_; }
  void removed(uint8_t job, uint32_t epoch);

 private:
  struct Taken {
    uint32_t epoch = 0;
    size_t memory_bytes = 0;
    size_t places = 0;
    std::vector<uint32_t> pages;
  };

  size_t largest_payload() const;
  std::string payload_text() const;

  std::string name_;
  bool connected_ = false;
  std::string problem_ = "it has not been reached yet";
  std::optional<Capabilities> capabilities_;
  std::map<uint8_t, Taken> taken_;  // by job
  std::set<std::pair<uint8_t, uint32_t>> unconfirmed_;
  size_t memory_in_use_ = 0;
  std::vector<bool> page_in_use_;
  size_t pages_in_use_ = 0;
  size_t places_in_use_ = 0;
};

}  // namespace switchml::controller
