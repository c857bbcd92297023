// A software switch on the simulated network, and its watch. Killed, it forgets everything.
#pragma once

#include <memory>

#include "heap.h"
#include "record.h"
#include "sim_transport.h"
#include "slot_watch.h"
#include "softswitch/switch.h"

namespace switchml::sim {

class SwitchNode final : private softswitch::PacketSink {
 public:
  SwitchNode(int node, const softswitch::SwitchOptions& options, Carrier* carrier, Record* record);
  ~SwitchNode() override;

  void deliver(int from, const uint8_t* frame, size_t size, bool damaged);
  void sweep();
  void kill();
  /// Starts an empty switch.
  void start(uint64_t seed);
  bool alive() const { return switch_ != nullptr; }
  int node() const { return node_; }

  // ---- for a controller ----
  void hand_requests_to(softswitch::ControlTap* tap);
  Status install(const softswitch::InstalledSession& session, int parent);
  void set_member(uint8_t job, uint32_t epoch, int worker, int shard, int node);
  void remove(uint8_t job, uint32_t epoch);
  WorkerSet contributed(uint8_t job, uint32_t epoch, uint16_t slot, uint32_t seq) const;
  void send_control(const uint8_t* frame, size_t size, int to) { carrier_->carry(node_, to, frame, size); }

  /// Whether slot memory is what the sessions need, and no more than allowed.
  void check_memory();
  /// Nothing must be left when all jobs are over and leases have run out.
  void check_empty();

 private:
  void unicast(const uint8_t* frame, size_t size, const Endpoint& to) override;
  void multicast(const uint8_t* frame, size_t size, const Endpoint* const* to, size_t count) override;
  void learn_from_reply(const uint8_t* frame, size_t size, int to);

  const int node_;
  softswitch::SwitchOptions options_;
  Carrier* carrier_;
  Record* record_;
  softswitch::ControlTap* tap_ = nullptr;
  std::unique_ptr<softswitch::SoftSwitch> switch_;
  std::unique_ptr<SlotWatch> watch_;
  const uint8_t* request_ = nullptr;  // The request that is being answered.
  size_t request_size_ = 0;
  Heap empty_;  // The heap of a switch without sessions.
};

}  // namespace switchml::sim
