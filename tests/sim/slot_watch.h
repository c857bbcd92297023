// The rules of a switch's slots, checked from outside at every packet. It knows the members' contributions (by worker
// and use), not their words: a result leaves only when every member has contributed to that very use, once to all of
// them; the switch's bitmap has just those that have; no older packet changes it; only members are answered. In exact
// sessions it knows the fields that contributions have in common, so that a result must say if they differ. Ranks check
// words and elements.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nodes.h"
#include "record.h"
#include "slot_frame.h"
#include "softswitch/switch.h"

namespace switchml::sim {

class SlotWatch {
 public:
  SlotWatch(const softswitch::SoftSwitch* the_switch, Record* record) : switch_(the_switch), record_(record) {}

  /// `parent`: the node of the parent, -1 for a root.
  void add_session(uint8_t job, uint32_t epoch, int shards, int slots, const WorkerSet& members, int parent,
                   bool exact = false);
  /// Makes a node the member: it gets results of the shard's slots, and its contributions count. shard -1: all.
  void set_member(uint8_t job, uint32_t epoch, int worker, int shard, int node);
  /// Ends sessions that the switch has forgotten: no packet may be sent for them from now on.
  void prune();

  /// `damaged`: the frame was changed, which an exact session's checksum must find.
  void before(int from, const uint8_t* frame, size_t size, bool damaged);
  /// Checks a frame that the switch sends for the one that came; several receivers in a row are one multicast.
  void output(const uint8_t* frame, size_t size, int to, bool multicast);
  void after();

 private:
  struct Use {
    uint32_t seq = 0;  // 0: none yet.
    WorkerSet heard;
    bool announced = false;  // The result went to all.
    // ---- exact ----
    uint32_t call = 0;
    uint32_t kind = 0;
    size_t bytes = 0;
    bool disagree = false;
    WorkerSet want_none;
    void say(const SlotFrame& contribution);
  };
  struct Session {
    bool live = true;
    bool exact = false;
    int slots_per_shard = 1;
    int parent = -1;
    WorkerSet members;
    std::map<std::pair<int, int>, int> nodes;  // (worker, shard) -> node.
    std::vector<Use> uses;                     // Index: slot and version.
    bool is_member(int worker, int shard, int node) const;
  };
  Session* find(const SlotFrame& frame);
  void hear(Session* session);
  void judge_output(Session* session, const SlotFrame& out, int to, bool multicast);
  void judge_receiver(const Session& session, const SlotFrame& out, int to);
  static std::string rule_of_result(const Session& session, const SlotFrame& out, int to);
  static bool wants_none(const Session& session, const Use& use, const SlotFrame& out, int to);
  std::string rule_of_elements(const Session& session, const Use& use, const SlotFrame& out, int to);
  void broken(const std::string& text) { record_->broken(Rule::kSlot, text); }

  const softswitch::SoftSwitch* switch_;
  Record* record_;
  std::map<std::pair<uint8_t, uint32_t>, Session> sessions_;

  // ---- the packet that is being processed ----
  int from_ = 0;
  std::optional<SlotFrame> packet_;
  Use* use_ = nullptr;          // Its use, if it is a member's and not old.
  bool announced_now_ = false;  // An earlier output of this packet was the result.
};

}  // namespace switchml::sim
