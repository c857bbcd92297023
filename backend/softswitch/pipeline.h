// The inside of SoftSwitch: the stages that a packet passes.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "softswitch/native_aggregator.h"
#include "softswitch/session_table.h"
#include "softswitch/slot_store.h"
#include "softswitch/switch.h"
#include "wire/packet.h"

namespace switchml::softswitch {

/// What a thread writes for every packet, in cache lines of its own. All else that contributions touch is either a
/// slot, which belongs to one partition, or changes only while every thread is excluded.
struct alignas(64) Partition {
  SwitchCounters counters;
  uint32_t burst = 1;                         // the present one: see SlotUse::borrowed_in
  std::array<Time, kMaxJobs + 1> heard = {};  // when a member of each job last was, as far as this partition knows
};

/// Where the stages put what they have to say about a packet.
struct PacketContext {
  void unicast(const uint8_t* frame, size_t size, const Endpoint& to, Ecn ecn);
  void multicast(const uint8_t* frame, size_t size, const Endpoint* const* to, size_t count, Ecn ecn);
  void write(const uint8_t* elements, const wire::Target& target, const uint8_t* frame, size_t size,
             const Endpoint& to);
  /// The use is about to change: the sink may still have its frame.
  void reclaim(const SlotUse& use);
  /// Counts what is wrong with a packet.
  void drop(wire::ParseError error);

  Partition& part;
  SwitchCounters& counters;
  PacketSink& out;
};

/// Who says in a contribution to be its sender, and what the rules of sessions ask about it.
struct Sender {
  uint8_t job = 0;
  uint8_t worker = 0;
  uint32_t epoch = 0;
  uint16_t slot = 0;
  bool native = false;
  size_t bytes = 0;  // behind the header
};

struct SoftSwitch::Impl {
  explicit Impl(const SwitchOptions& options);

  // ---- contributions (switch.cc) ----
  /// `alone`: nobody else uses the switch now. False: that is needed, and nothing was done.
  bool data(const RxFrame& frame, Time now, bool alone, PacketContext& context);
  bool contribution(const RxFrame& frame, Time now, bool alone, PacketContext& context);
  bool other_than_integers(const RxFrame& frame, Time now, bool alone, PacketContext& context);
  bool native_contribution(const RxFrame& frame, Time now, bool alone, PacketContext& context);
  /// Session, SlotIndex: the member's session, or null (and the drop is counted).
  SessionEntry* admit(const Sender& sender, const Endpoint& from, SwitchCounters& counters);
  /// The same of what may be a result from the session's parent. [TREE-8]
  SessionEntry* admit_result(const Sender& sender, const Endpoint& from, SwitchCounters& counters);
  /// Whether answers to the member leave from where the frame came, from now on. False: that takes who is alone.
  bool note_member(SessionEntry* session, const Sender& sender, const RxFrame& frame, Time now, bool alone,
                   PacketContext& context);
  /// SequenceCheck, Bitmap, Aggregator, NextStep.
  void aggregate(const SessionEntry& session, const wire::DataPacket& packet, const RxFrame& frame,
                 PacketContext& context);
  void aggregate_native(const SessionEntry& session, const wire::NativePacket& packet, const RxFrame& frame,
                        PacketContext& context);
  void forward_native(const SessionEntry& session, const SlotUse& use, const wire::NativeHeader& header,
                      PacketContext& context);
  void duplicate_native(const SessionEntry& session, SlotUse* use, const wire::NativeHeader& header,
                        const RxFrame& asking, PacketContext& context);
  void duplicate(const SessionEntry& session, SlotUse* use, uint8_t worker, uint8_t* frame, const RxFrame& asking,
                 PacketContext& context);
  /// NextStep of a complete use: the result to all members of the slot's shard, or the aggregate to the parent.
  void forward(const SessionEntry& session, uint16_t slot, const uint8_t* frame, size_t size, Ecn ecn,
               PacketContext& context);
  /// A result from the parent, for all members (only a leaf takes results).
  void pass_down(const RxFrame& frame, PacketContext& context);
  void pass_down_native(const RxFrame& frame, PacketContext& context);
  /// A result, each with what it wants of it.
  void to_members(const SessionEntry& session, const SlotUse& use, const wire::NativeHeader& header,
                  const NativeFrame& whole, const NativeFrame& bare, Ecn ecn, PacketContext& context);

  // ---- control (control.cc) ----
  void request(const uint8_t* frame, size_t size, const Endpoint& from, Time now, PacketSink& out);
  wire::ReplyStatus open(const uint8_t* body, const Endpoint& from, Time now, uint8_t* reply);
  void make_room(const wire::Open& asked, const Endpoint& client, Time now);
  wire::ReplyStatus join(const uint8_t* body, const Endpoint& from, Time now, uint8_t* reply);
  wire::ReplyStatus close(const uint8_t* body, Time now);
  wire::ReplyStatus probe(const uint8_t* body, const Endpoint& from, Time now, uint8_t* reply);
  void end(uint8_t job);
  void expire(const std::vector<uint8_t>& jobs);
  WorkerSet contributors(const SessionEntry& session, uint16_t slot, uint32_t seq) const;
  /// The table learns which sessions the partitions have heard from.
  void gather_signs_of_life();

  ControlTap* tap = nullptr;
  MeetTap* meet_tap = nullptr;
  size_t slot_memory_bytes;
  size_t max_payload_bytes;
  Endpoint (*client_of)(const Endpoint& from);
  bool by_invitation;
  std::array<std::optional<uint64_t>, 16> invited;  // client keys, in rotation
  size_t invitations = 0;
  SessionTable table;
  std::unique_ptr<SlotStore> stores[256];  // by job number, of the sessions in `table`
  std::vector<Partition> partitions;
  SwitchCounters& counters;  // of what concerns no partition: the first one's
};

}  // namespace switchml::softswitch
