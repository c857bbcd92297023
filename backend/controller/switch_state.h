// One switch as the controller knows it: its capabilities, its connection, and the resources in use.
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

/// The capabilities that a switch's agent reports.
struct Capabilities {
  std::string kind;       // "software", "bmv2", "tofino".
  uint64_t instance = 0;  // A new number means that it has forgotten its sessions.
  uint32_t protocol_version = 0;
  std::vector<size_t> payloads;  // Supported sizes in bytes, ascending.
  bool any_payload = false;      // Every allowed size up to the largest of them.
  bool whole_chunks = false;
  size_t members = 0;  // Most members of one session.
  size_t jobs = 0;     // Most jobs.
  bool sum = false;
  bool max = false;
  bool trees = false;
  size_t pages = 0;  // 0: slots come from memory_bytes.
  size_t page_slots = 0;
  uint64_t memory_bytes = 0;
  size_t receive_buffer_bytes = 0;
  std::string mac;
  size_t places = 0;   // Most (member, shard) pairs of all sessions together; 0: no bound.
  bool pairs = false;  // The end of unreliable queue pairs.
  bool exact = false;  // Keeps contributions, and reduces elements of any type.
};

/// A session's requirements of a switch.
struct Needs {
  bool sum = true;
  bool max = true;
  bool tree = false;   // The session spans several switches.
  bool pairs = false;  // Ranks at this switch use unreliable queue pairs.
  size_t members = 1;  // Members at this switch.
  size_t shards = 1;
  size_t payload_bytes = 0;  // The switch must take some size up to it.
};

class SwitchState {
 public:
  explicit SwitchState(std::string name) : name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  bool connected() const { return connected_; }
  /// Why it is not connected, or cannot be used although it is; empty: neither.
  const std::string& problem() const { return problem_; }
  /// The last report; none before it has been connected.
  const std::optional<Capabilities>& capabilities() const { return capabilities_; }

  /// Notes that the agent answers. True if the switch has forgotten its sessions since it answered last.
  bool connect(const Capabilities& capabilities);
  void disconnect(const std::string& problem);

  /// The reason why it cannot serve a session now, or ever; none if at most slots are missing.
  std::optional<Refusal> check(const Needs& needs) const;
  /// The limits for grant(). Precondition: connected once.
  softswitch::GrantLimits limits(size_t members) const;
  /// Free slots of the largest payload; 0 if it was never connected.
  size_t free_slots() const;
  size_t jobs() const { return taken_.size(); }

  /// Allocates slots, and places for its members, to a job, within limits() and check(); returns the pages, if there
  /// are pages.
  std::vector<uint32_t> take(uint8_t job, uint32_t epoch, int slots, size_t slot_bytes, size_t places);
  /// Frees the resources of a session that has ended. Its removal must be carried out before the next installation.
  void release(uint8_t job);
  /// Sessions (job, epoch) with removals that the switch has not confirmed.
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
  std::map<uint8_t, Taken> taken_;  // Key: job.
  std::set<std::pair<uint8_t, uint32_t>> unconfirmed_;
  size_t memory_in_use_ = 0;
  std::vector<bool> page_in_use_;
  size_t pages_in_use_ = 0;
  size_t places_in_use_ = 0;
};

}  // namespace switchml::controller
