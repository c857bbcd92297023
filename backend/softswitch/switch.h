// The aggregator as a pure state machine: a packet in, packets out. No socket, no clock, no thread. It is the
// executable statement of what the P4 programs do; the steps carry their controls' names:
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
#include "softswitch/installed.h"
#include "wire/layout.h"

namespace switchml::softswitch {

struct SwitchOptions {
  /// Memory for slots of all jobs together, in bytes; an open beyond it is refused (no_slots).
  size_t slot_memory_bytes = size_t{256} << 20;
  /// Largest payload that a job is granted.
  size_t max_payload_bytes = 63 * 1024;
  int max_jobs = 255;
  /// What one client may have of them: jobs, and bytes of slot memory. Who counts as one client of those that send,
  /// `client_of` says; null: nobody is counted.
  int client_jobs = 255;
  size_t client_memory_bytes = SIZE_MAX;
  Endpoint (*client_of)(const Endpoint& from) = nullptr;
  /// Only opens whose client keys invite() announced are granted. Memory is then what those who announce them ask for.
  bool by_invitation = false;
  /// Take packets without words or with a whole payload only, as a switch does whose parser knows no other lengths.
  bool whole_chunks = false;
  /// Grant no exact session, as a switch does that only adds integers.
  bool integers = false;
  /// Say to whoever opens a session that members gain by TCP.
  bool suits_tcp = false;
  /// Members may come by RDMA: answer_meets_by() is called before the first request.
  bool has_card = false;
  /// What the receiving socket can queue (TransportLimits.receive_buffer_bytes); slots are granted so that all workers'
  /// outstanding frames fit in it. 0: no bound.
  size_t receive_buffer_bytes = 0;
  /// A session none of whose members was heard for this long is closed. Longer than a job is suspended, usually.
  Duration lease = std::chrono::minutes(30);
  /// The same where what it holds is wanted; at most half of the lease. Members are heard every 5 s, so that several
  /// signs of life have not come.
  Duration silence = seconds(15);
  /// Seed of the unpredictable epochs and keys (from the system's random source in production).
  uint64_t seed = 0;
};

/// Where a switch puts what it sends. The bytes of a `frame` stay as they are until reclaim() is called, or the next
/// burst begins; endpoints are valid during the call only.
class PacketSink {
 public:
  virtual ~PacketSink() = default;
  /// The switch needs the memory of frames that it has handed over: they must be sent, or copied, when this returns.
  virtual void reclaim() {}
  /// What packets say from now on: kNone at first. [ECN-1]
  virtual void set_ecn(Ecn /*ecn*/) {}
  virtual void unicast(const uint8_t* frame, size_t size, const Endpoint& to) = 0;
  /// The same frame to several endpoints.
  virtual void multicast(const uint8_t* frame, size_t size, const Endpoint* const* to, size_t count) = 0;
  /// `target.bytes` bytes of `elements` into the memory of who comes by RDMA, then the frame, which arrives after it.
  /// Sinks of a switch without a card are not asked to.
  virtual void write(const uint8_t* /*elements*/, const wire::Target& /*target*/, const uint8_t* /*frame*/,
                     size_t /*size*/, const Endpoint& /*to*/) {}
};

/// Where a switch of a controller hands control requests that arrive as packets.
class ControlTap {
 public:
  virtual ~ControlTap() = default;
  /// A whole request datagram of any content; `frame` is valid during the call only. Must not block.
  virtual void request(const uint8_t* frame, size_t size, const Endpoint& from) = 0;
};

/// Makes queue pairs for those who come by RDMA.
class MeetTap {
 public:
  virtual ~MeetTap() = default;
  /// Is to answer: SoftSwitch::join() decides. Must not block, nor call the switch.
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

  /// No sink uses the frames any more that process() has handed to it.
  void begin_burst();
  /// Takes one frame of any content. Never throws; whatever is not a valid packet of a member is dropped and counted.
  void process(const RxFrame& frame, Time now, PacketSink& out);
  /// A burst of one frame.
  void process(const uint8_t* frame, size_t size, const Endpoint& from, Time now, PacketSink& out,
               Ecn ecn = Ecn::kNone) {
    begin_burst();
    process({frame, static_cast<uint32_t>(size), from, ecn}, now, out);
  }

  /// An open with this client key may come; the last 16 keys are remembered.
  void invite(uint64_t client_key);

  /// Ends sessions whose lease ran out. Call about once a second.
  void sweep(Time now);

  // ---- with a card ----
  /// Requests to meet go to `tap` (borrowed) from now on. Without it there is no such request.
  void answer_meets_by(MeetTap* tap);
  struct Joined {
    wire::ReplyStatus status = wire::ReplyStatus::kOk;
    wire::JoinReply reply;  // where wire::has_body(status)
  };
  /// What a join from `from` comes to. [MEET-1]
  Joined join(const wire::Join& asked, const Endpoint& from, Time now);

  /// Whether there is such a session now.
  bool serves(uint8_t job, uint32_t epoch) const;

  // ---- under a controller ----
  /// From now on requests go to `tap` (borrowed) instead of to this switch's own rules.
  void hand_requests_to(ControlTap* tap);
  /// Makes a session known, without members. kInvalidArgument: a value out of range; kMismatch: the job number serves
  /// another session; kUnavailable: no memory for its slots. The very same again changes nothing.
  Status install(const InstalledSession& session, Time now);
  /// Where a member of an installed session receives and sends from, from now on; shard -1: all shards.
  Status set_member(uint8_t job, uint32_t epoch, int worker, int shard, const Endpoint& endpoint);
  /// Ends a session; one that is not there is no error.
  void remove(uint8_t job, uint32_t epoch);
  /// Ends all sessions.
  void remove_all();
  /// Whose contributions a use of a slot has; of a use that a newer one has replaced, all members'.
  Result<WorkerSet> contributed(uint8_t job, uint32_t epoch, uint16_t slot, uint32_t seq) const;

  SwitchCounters counters() const;
  /// Bytes of slot memory in use now.
  size_t slot_memory_in_use() const;
  int sessions() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace switchml::softswitch
