// The rules of a switch's slots, judged from outside at every packet. It knows what members have sent (by whom and for
// which use), not what the words are: a result leaves only when every member has contributed to that very use, once to
// all of them; the bitmap that the switch tells holds just those who have; nothing older moves it; nobody else is
// answered. Of exact sessions it knows what contributions must be alike in, so that a result must say if they are not.
// Words and elements are judged where they arrive.
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
  /// Results of the shard's slots go to this node from now on, and its contributions count. shard -1: all.
  void set_member(uint8_t job, uint32_t epoch, int worker, int shard, int node);
  /// Sessions that the switch does not know any more are over; nothing may be sent for them from now on.
  void prune();

  /// `damaged`: it is not what was sent, as an exact session's checksum must find.
  void before(int from, const uint8_t* frame, size_t size, bool damaged);
  /// The switch sends a frame because of the one that came; several receivers in a row are one multicast.
  void output(const uint8_t* frame, size_t size, int to, bool multicast);
  void after();

 private:
  struct Use {
    uint32_t seq = 0;  // 0: none yet
    WorkerSet heard;
    bool announced = false;  // the result went to all
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
    std::map<std::pair<int, int>, int> nodes;  // by worker and shard
    std::vector<Use> uses;                     // by slot and version
    bool is_member(int worker, int shard, int node) const;
  };
  Session* find(const SlotFrame& frame);
  void hear(Session* session);
  void judge_output(Session* session, const SlotFrame& out, int to, bool multicast);
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
  Use* use_ = nullptr;          // what it belongs to, if it is a member's and not old
  bool announced_now_ = false;  // by an earlier output of this packet
};

}  // namespace switchml::sim
