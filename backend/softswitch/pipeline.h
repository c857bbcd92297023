// The inside of SoftSwitch: the stages that a packet passes.
#pragma once

#include <memory>

#include "softswitch/session_table.h"
#include "softswitch/slot_store.h"
#include "softswitch/switch.h"
#include "wire/packet.h"

namespace switchml::softswitch {

struct SoftSwitch::Impl {
  explicit Impl(const SwitchOptions& options);

  // ---- contributions (switch.cc) ----
  void contribution(const uint8_t* frame, size_t size, const Endpoint& from, Time now, PacketSink& out);
  /// Session, SlotIndex: the member's session, or null (and the drop is counted).
  SessionEntry* admit(const wire::DataPacket& packet, const Endpoint& from);
  /// SequenceCheck, Bitmap, Aggregator, NextStep.
  void aggregate(const SessionEntry& session, const wire::DataPacket& packet, const Endpoint& from, PacketSink& out);
  void duplicate(const SessionEntry& session, const SlotUse& use, uint8_t* frame, const Endpoint& from,
                 PacketSink& out);
  /// NextStep of a complete use: the result to all members of the slot's shard, or the aggregate to the parent.
  void forward(const SessionEntry& session, uint16_t slot, const uint8_t* frame, size_t size, PacketSink& out);
  /// A result from the parent, for all members (only a leaf takes results).
  void pass_down(const uint8_t* frame, size_t size, const Endpoint& from, PacketSink& out);
  void count_parse_error(wire::ParseError error);

  // ---- control (control.cc) ----
  void request(const uint8_t* frame, size_t size, const Endpoint& from, Time now, PacketSink& out);
  wire::ReplyStatus open(const uint8_t* body, const Endpoint& from, Time now, uint8_t* reply);
  wire::ReplyStatus join(const uint8_t* body, const Endpoint& from, Time now, uint8_t* reply);
  wire::ReplyStatus close(const uint8_t* body, Time now);
  wire::ReplyStatus probe(const uint8_t* body, const Endpoint& from, Time now, uint8_t* reply);
  void end(uint8_t job);
  void expire(const std::vector<uint8_t>& jobs);
  WorkerSet contributors(const SessionEntry& session, uint16_t slot, uint32_t seq) const;

  void unicast(const uint8_t* frame, size_t size, const Endpoint& to, PacketSink& out);

  ControlTap* tap = nullptr;
  size_t slot_memory_bytes;
  size_t max_payload_bytes;
  Endpoint (*client_of)(const Endpoint& from);
  SessionTable table;
  std::unique_ptr<SlotStore> stores[256];  // by job number, of the sessions in `table`
  SwitchCounters counters;
};

}  // namespace switchml::softswitch
