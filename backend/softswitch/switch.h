// The aggregator as a pure state machine: a packet in, packets out. No socket, no clock, no thread. It specifies the P4
// programs; the steps have the names of their controls:
//   Session (job, epoch, worker, source) -> SlotIndex (range) -> SequenceCheck (NEW, SAME, STALE) -> Bitmap ->
//   Exponent, Witness, Aggregator -> NextStep (drop, answer one, answer all)
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "base/counters.h"
#include "base/status.h"
#include "socket/endpoint.h"
#include "softswitch/session_table.h"
#include "wire/control.h"
#include "wire/layout.h"

namespace switchml::softswitch {

struct SwitchOptions {
  /// Memory for the slots of all jobs, in bytes; an open beyond it is refused (no_slots).
  size_t slot_memory_bytes = size_t{256} << 20;
  /// Largest payload that a job is granted.
  size_t max_payload_bytes = 63 * 1024;
  int max_jobs = 255;
  /// Quotas of a client: jobs, and bytes of slot memory. `client_of` maps a sender's address to its client; null: there
  /// are no quotas.
  int client_jobs = 255;
  size_t client_memory_bytes = SIZE_MAX;
  Endpoint (*client_of)(const Endpoint& from) = nullptr;
  /// Grants only opens with client keys that invite() announced.
  bool by_invitation = false;
  /// Takes packets without words or with a whole payload only, as chips do: their parsers know no other lengths.
  bool whole_chunks = false;
  /// Grants no exact session, as chips do, which add integers only.
  bool integers = false;
  /// Replies to opens recommend TCP.
  bool suits_tcp = false;
  /// Members may use RDMA: answer_meets_by() is called before the first request.
  bool has_card = false;
  /// Frames come and go over sealed links, where nothing else need check elements.
  bool sealed = false;
  /// Receive buffer of the socket (TransportLimits.receive_buffer_bytes); slots are granted so that all workers'
  /// outstanding frames fit in it. 0: no bound.
  size_t receive_buffer_bytes = 0;
  /// A session is closed when no member was heard for this long, which is longer than jobs are usually suspended.
  Duration lease = std::chrono::minutes(30);
  /// Idle time after which a session may be ended to make room; at most half of the lease. Keep-alives come every 5 s,
  /// so several have been missed.
  Duration silence = seconds(15);
  /// Seed of the unpredictable epochs and keys (from the system's random source in production).
  uint64_t seed = 0;
};

/// The output of a switch. The bytes of a `frame` stay as they are until reclaim() is called, or the next burst begins;
/// endpoints are valid during the call only.
class PacketSink {
 public:
  virtual ~PacketSink() = default;
  /// Frames handed over must have been sent, or copied, when this returns: the switch needs their memory.
  virtual void reclaim() {}
  /// The ECN field of the packets from now on: kNone at first. [ECN-1]
  virtual void set_ecn(Ecn /*ecn*/) {}
  virtual void unicast(const uint8_t* frame, size_t size, const Endpoint& to) = 0;
  virtual void multicast(const uint8_t* frame, size_t size, const Endpoint* const* to, size_t count) = 0;
  /// Writes `target.bytes` bytes of `elements` to the memory of a member with RDMA, then sends the frame, which arrives
  /// after them. Never called without a card.
  virtual void write(const uint8_t* /*elements*/, const wire::Target& /*target*/, const uint8_t* /*frame*/,
                     size_t /*size*/, const Endpoint& /*to*/) {}
};

/// The receiver of control requests that arrive as packets at a switch with a controller.
class ControlTap {
 public:
  virtual ~ControlTap() = default;
  /// Takes a request datagram of any content; `frame` is valid during the call only. Must not block.
  virtual void request(const uint8_t* frame, size_t size, const Endpoint& from) = 0;
};

/// Makes queue pairs for members with RDMA.
class MeetTap {
 public:
  virtual ~MeetTap() = default;
  /// Queues a request to be answered as SoftSwitch::join() decides. Must not block, nor call the switch.
  virtual void meet(const wire::Join& asked, const wire::Introduction& its, uint32_t request_id,
                    const Endpoint& from) = 0;
};

/// One thread at a time, but for counters(), which may be called any time. Sinks must be done with the frames of a
/// burst (PacketSink) before anything but process() is called.
class SoftSwitch {
 public:
  explicit SoftSwitch(const SwitchOptions& options);
  ~SoftSwitch();
  SoftSwitch(const SoftSwitch&) = delete;
  SoftSwitch& operator=(const SoftSwitch&) = delete;

  /// Begins a burst: sinks have released all frames of the last one.
  void begin_burst();
  /// Takes one frame of any content. Never throws; a frame that is no valid packet of a member is dropped and counted.
  void process(const RxFrame& frame, Time now, PacketSink& out);
  void process(const uint8_t* frame, size_t size, const Endpoint& from, Time now, PacketSink& out,
               Ecn ecn = Ecn::kNone) {
    begin_burst();
    process({frame, static_cast<uint32_t>(size), from, ecn}, now, out);
  }

  /// Announces an open with this client key; the last 16 keys are remembered.
  void invite(uint64_t client_key);

  /// Ends sessions with leases that ran out. Call about once a second.
  void sweep(Time now);

  // ---- with a card ----
  /// Has `tap` (borrowed) answer requests to meet from now on. Without it they are malformed.
  void answer_meets_by(MeetTap* tap);
  /// The outcome of a join from `from`. [MEET-1]
  JoinOutcome join(const wire::Join& asked, const Endpoint& from, Time now);

  bool serves(uint8_t job, uint32_t epoch) const;
  /// Where this member has joined from; of size 0: it is none.
  Endpoint joined_from(const wire::Membership& member, int shard) const;

  // ---- under a controller ----
  /// Hands requests to `tap` (borrowed) from now on, in place of this switch's own rules.
  void hand_requests_to(ControlTap* tap);
  /// Adds a session, without members. kInvalidArgument: a value out of range; kMismatch: the job number serves another
  /// session; kUnavailable: no memory for its slots. Idempotent.
  Status install(const InstalledSession& session, Time now);
  /// Sets the address of a member of an installed session; shard -1: of all shards.
  Status set_member(uint8_t job, uint32_t epoch, int worker, int shard, const Endpoint& endpoint);
  /// Ends a session, if it exists.
  void remove(uint8_t job, uint32_t epoch);
  void remove_all();
  /// The members that have contributed to a use of a slot; all members, if a newer use has replaced it.
  Result<WorkerSet> contributed(uint8_t job, uint32_t epoch, uint16_t slot, uint32_t seq) const;

  SwitchCounters counters() const;
  size_t slot_memory_in_use() const;
  int sessions() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace switchml::softswitch
