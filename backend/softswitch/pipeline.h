// The inside of SoftSwitch: the stages that a packet passes.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "format/aggregator.h"
#include "slots/slot_store.h"
#include "softswitch/switch.h"
#include "wire/packet.h"

namespace switchml::softswitch {

/// The output of the stages for one packet.
struct PacketContext {
  void unicast(const uint8_t* frame, size_t size, const Endpoint& to, Ecn ecn);
  void multicast(const uint8_t* frame, size_t size, const Endpoint* const* to, size_t count, Ecn ecn);
  void write(const uint8_t* elements, const wire::Target& target, const uint8_t* frame, size_t size,
             const Endpoint& to);
  /// Has the sink send or copy the frame of a use that is about to change.
  void reclaim(const SlotUse& use);
  /// Counts a dropped packet by its error.
  void drop(wire::ParseError error);

  uint32_t& burst;  // Number of the present burst: see SlotUse::borrowed_in.
  SwitchCounters& counters;
  PacketSink& out;
};

struct SoftSwitch::Impl {
  explicit Impl(const SwitchOptions& options);

  // ---- contributions (switch.cc) ----
  void data(const RxFrame& frame, Time now, PacketContext& context);
  void contribution(const Aggregator& format, const RxFrame& frame, Time now, PacketContext& context);
  static const Aggregator& format_of(const SessionEntry& session);
  /// Session, SlotIndex: the member's session, or null after counting the drop.
  SessionEntry* admit(const Aggregator& format, const Arrival& arrival, const Endpoint& from, SwitchCounters& counters);
  /// Like admit(), for results from the session's parent. [TREE-8]
  SessionEntry* admit_result(const Aggregator& format, const Arrival& arrival, const Endpoint& from,
                             SwitchCounters& counters);
  /// SequenceCheck, Bitmap, Aggregator, NextStep.
  void aggregate(const Aggregator& format, const SessionEntry& session, const Arrival& arrival, const RxFrame& frame,
                 PacketContext& context);
  void duplicate(const Aggregator& format, const SessionEntry& session, SlotUse* use, const Arrival& arrival,
                 const RxFrame& asking, PacketContext& context);
  /// Sends the result of the use that `at` names: `whole`, or `bare` to members that want no elements.
  void to_members(const Aggregator& format, const SessionEntry& session, const SlotUse& use, const Arrival& at,
                  const SwitchFrame& whole, const SwitchFrame& bare, Ecn ecn, PacketContext& context);
  /// Passes a result from the parent down to all members (only a leaf takes results).
  void hand_on(const Aggregator& format, const RxFrame& frame, PacketContext& context);

  // ---- control requests (requests.cc) ----
  void request(const uint8_t* frame, size_t size, const Endpoint& from, Time now, PacketSink& out);
  wire::ReplyStatus open(const uint8_t* body, const Endpoint& from, Time now, uint8_t* reply);
  void make_room(const wire::Open& asked, const Endpoint& client, Time now);
  wire::ReplyStatus join(const uint8_t* body, const Endpoint& from, Time now, uint8_t* reply);
  wire::ReplyStatus close(const uint8_t* body, Time now);
  wire::ReplyStatus probe(const uint8_t* body, const Endpoint& from, Time now, uint8_t* reply);
  void end(uint8_t job);
  void expire(const std::vector<uint8_t>& jobs);
  WorkerSet contributors(const SessionEntry& session, uint16_t slot, uint32_t seq) const;

  ControlTap* tap = nullptr;
  MeetTap* meet_tap = nullptr;
  size_t slot_memory_bytes;
  size_t max_payload_bytes;
  Endpoint (*client_of)(const Endpoint& from);
  bool by_invitation;
  std::array<std::optional<uint64_t>, 16> invited;  // Client keys, in rotation.
  size_t invitations = 0;
  SessionTable table;
  std::unique_ptr<SlotStore> stores[256];  // Job number -> slots of its session in `table`.
  SwitchCounters counters;
  uint32_t burst = 1;  // Number of the present burst.
};

}  // namespace switchml::softswitch
