// The controller's core: sessions over one or several switches. Events in (calls of workers, packets that arrived at
// switches, results of commands, time), effects out (commands for switches, answers). No I/O, no clock, no thread.
//
// The rules of a session are those of the software switch, in the same code: softswitch::SessionTable and grant(). The
// tree of switches, their capabilities and quotas come on top.
//
//   open       chooses the tree, grants the least of its switches, installs the session on all of them, makes child
//              switches members of their parents, and answers when all have confirmed.
//   join       in band, through the switch: tells the switch the worker's address, and answers when it has confirmed.
//              So the data plane knows each worker that is answered.
//   probe      asks every switch of the session, and finds silent paths between them.
//   close      by the last worker, by call, by an expired lease or because a switch has forgotten the session:
//              removes it from all its switches.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "controller/commands.h"
#include "controller/plan.h"
#include "controller/silent_paths.h"
#include "controller/switch_state.h"
#include "controller/topology.h"
#include "controller/tree.h"
#include "softswitch/session_table.h"

namespace switchml::controller {

/// A client, and its quotas. 0: no bound.
struct Owner {
  std::string name;
  size_t max_jobs = 0;
  size_t max_slots = 0;
  bool plans = false;  // May set plans.
};

struct OpenRequest {
  uint32_t protocol_version = wire::kVersion;
  uint64_t client_key = 0;
  std::string group;  // For people.
  uint32_t workers = 0;
  uint32_t shards = 0;
  uint32_t slots = 0;  // All shards' together; 0: the default.
  uint32_t payload_bytes = 0;
  bool sum = true;
  bool max = true;
  bool pairs = false;                        // Ranks use unreliable queue pairs.
  bool exact = false;                        // An exact session, if all switches can.
  std::vector<std::vector<Endpoint>> ranks;  // Rank -> its addresses.
  size_t share = 0;                          // Index in the plan for the ranks' workers.
  SessionId replaces;                        // The session, with replaced_key, that the ranks leave for this one.
  uint64_t replaced_key = 0;
  Owner owner;
};

/// The switches of one share of a group's tensors.
struct ShareLocation {
  uint32_t weight = 1;
  std::vector<Endpoint> switches;  // Index: rank.
  uint64_t tree_id = 0;            // PlannedShare::tree_id(), or 0.
};

/// Counts of events, for metrics.
struct ControllerCounters {
  uint64_t sessions_opened = 0;
  uint64_t opens_refused = 0;
  uint64_t sessions_closed = 0;   // Closed by their members.
  uint64_t sessions_expired = 0;  // No member was heard for the lease.
  uint64_t sessions_lost = 0;     // A switch has forgotten them, or could not install them.
  uint64_t requests = 0;          // Control packets that arrived at switches.
  uint64_t requests_malformed = 0;
  uint64_t joins_refused = 0;
  uint64_t silent_paths = 0;  // Silent paths between switches, once per session.
};

struct SessionView {
  SessionId id;
  std::string group;
  std::string owner;
  int workers = 0;
  WorkerSet joined;  // Workers with all their shards.
  int slots = 0;
  size_t payload_bytes = 0;
  Duration lease_left{};
  std::vector<int> switches;  // The root first.
  std::vector<SilentPath> silent_paths;
};

class Sessions {
 public:
  /// `seed` makes epochs and keys unpredictable. Precondition: the topology is valid.
  Sessions(Topology topology, uint64_t seed);
  ~Sessions();
  Sessions(const Sessions&) = delete;
  Sessions& operator=(const Sessions&) = delete;

  // ---- switches ----
  /// The agent of switch `at` answers. Ends the sessions that the switch has forgotten.
  void switch_up(int at, const Capabilities& capabilities, Effects* out);
  void switch_down(int at, const std::string& problem);
  /// Takes the results of a work, one per command in its order.
  void done(uint64_t work, const std::vector<CommandResult>& results, Effects* out);

  // ---- calls ----
  /// Sets the plan for later sessions of ranks on exactly these workers; a plan without shares restores the topology's
  /// tree. Existing sessions stay as they are.
  std::optional<Refusal> set_plan(Plan plan);
  /// One or several shares, each for a session of its own.
  Result<std::vector<ShareLocation>> locate(const std::vector<std::vector<Endpoint>>& ranks) const;
  /// Answers once with `ticket`, now or after done(). A client key that is open already gets its session.
  void open(const OpenRequest& request, uint64_t ticket, Time now, Effects* out);
  /// Extends the lease. None: done.
  std::optional<Refusal> renew(SessionId id, uint64_t session_key, Time now);
  /// Ends the session for all; one that has ended already is no error.
  std::optional<Refusal> close(SessionId id, uint64_t session_key, Effects* out);

  // ---- packets and time ----
  /// Takes a control request that arrived at switch `at`. The frame may have any content.
  void packet_in(int at, const uint8_t* frame, size_t size, const SwitchPort& from, Time now, Effects* out);
  /// Ends sessions with leases that ran out. Call about once a second.
  void sweep(Time now, Effects* out);

  const Topology& topology() const { return topology_; }
  const SwitchState& state(int at) const { return switches_[static_cast<size_t>(at)]; }
  std::vector<SessionView> sessions(Time now) const;
  const ControllerCounters& counters() const { return counters_; }

 private:
  struct SessionRecord;
  struct Met;
  struct PendingWork;
  struct ControlRequest;

  // ---- open and end (sessions.cc) ----
  std::optional<Refusal> try_open(const OpenRequest& request, uint64_t ticket, Time now, Effects* out);
  std::optional<uint8_t> to_make_room(const Refusal& refusal, Time now) const;
  struct Shape;
  Result<Shape> shape_of(const OpenRequest& request) const;
  const Plan* plan_for(const std::vector<Attachment>& ranks) const;
  std::optional<Refusal> find_opened(const OpenRequest& request, uint64_t ticket, Effects* out);
  std::optional<Refusal> check_tree(const OpenRequest& request, const Tree& tree) const;
  /// Whether the owner's quota counts a session beside the requested one.
  bool counts(const SessionRecord& session, const OpenRequest& request) const;
  std::optional<Refusal> check_jobs(const OpenRequest& request) const;
  std::vector<softswitch::GrantLimits> limits(const OpenRequest& request, const Tree& tree) const;
  size_t slots_beside(const OpenRequest& request) const;
  size_t largest_page(const Tree& tree) const;
  Refusal refused(const OpenRequest& request, const Tree& tree, wire::ReplyStatus status, size_t by) const;
  void install(SessionRecord* session, Effects* out);
  Install install_at(const SessionRecord& session, const TreeNode& node);
  SetMember child_of(const SessionRecord& session, const TreeNode& child) const;
  const SwitchSpec& spec(const TreeNode& node) const { return topology_.switches[static_cast<size_t>(node.at)]; }
  std::string mac_of(const TreeNode& node) const;
  std::vector<Endpoint> addresses_of(const std::vector<Attachment>& ranks) const;
  OpenAnswer answer(const SessionRecord& session, uint64_t ticket) const;
  void opened(const PendingWork& pending, const std::vector<CommandResult>& results, Effects* out);
  void end(uint8_t job, const Refusal& why, Effects* out);
  void begin(std::unique_ptr<PendingWork> pending, Effects* out);
  void note_removals(const PendingWork& pending, const std::vector<CommandResult>& results);
  bool removing_at(int at) const;
  void repeat_removals(Effects* out);
  void expire(const std::vector<uint8_t>& jobs, Effects* out);
  void excuse_deafness(Time now);
  SessionRecord* find(SessionId id) const;

  // ---- packets (packets.cc) ----
  std::optional<wire::ReplyStatus> answer_request(const ControlRequest& request, uint8_t* body, Effects* out);
  std::optional<wire::ReplyStatus> join(const ControlRequest& request, const std::optional<Met>& met, uint8_t* body,
                                        Effects* out);
  std::optional<wire::ReplyStatus> meet(const ControlRequest& request, uint8_t* body, Effects* out);
  void write_joined(const SessionRecord& session, const PendingWork& pending, uint8_t* body) const;
  wire::ReplyStatus close(const ControlRequest& request, Effects* out);
  std::optional<wire::ReplyStatus> probe(const ControlRequest& request, Effects* out);
  bool may_join_here(const SessionRecord& session, int rank, const ControlRequest& request) const;
  void joined(const PendingWork& pending, const std::vector<CommandResult>& results, Effects* out);
  void probed(const PendingWork& pending, const std::vector<CommandResult>& results, Effects* out);
  void look_for_silence(const PendingWork& pending, const UseInTree& use, SessionRecord* session);

  Topology topology_;
  std::vector<SwitchState> switches_;
  softswitch::SessionTable table_;
  std::map<std::vector<int>, Plan> plans_;                      // Key: workers.
  std::map<uint8_t, std::unique_ptr<SessionRecord>> sessions_;  // Key: job.
  std::map<uint64_t, std::unique_ptr<PendingWork>> pending_;    // Key: Work::id.
  uint64_t last_work_ = 0;
  std::optional<Time> last_sweep_;
  ControllerCounters counters_;
};

}  // namespace switchml::controller
