// What a shard knows of its switch beside results: whether it is there, which workers it waits for, and that it still
// takes this worker for a member.
//
// - Probes: While a chunk waits and nothing is accepted, the switch is asked which workers have contributed to it.
//   Its answers tell which ranks are missing, and which have left. If it does not answer for long enough, it is given
//   up.
// - Socket errors: A host that refuses frames for long enough has no switch any more.
// - Cards: Where no queue pair with the switch can be had for long enough, it is given up.
// - Keep-alives: Joins, repeated before the lease runs out. The switch may ask for its cookie again.
//
// Pure: time is an argument. The shard sends the frames that are returned, and says what it sent and received. One
// thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "engine/engine.h"
#include "wire/control.h"

namespace switchml {

class SwitchLiveness {
 public:
  /// A request for the switch. `size` 0: none.
  struct Request {
    std::array<uint8_t, wire::kMaxControlBytes> bytes{};
    size_t size = 0;
  };
  /// A use of a slot.
  struct Use {
    uint16_t slot = 0;
    uint32_t seq = 0;
    bool operator==(const Use& other) const { return slot == other.slot && seq == other.seq; }
  };
  /// What follows from a reply.
  struct Consequence {
    Request request;                                 // A request to send.
    std::optional<wire::Introduction> introduction;  // The switch's, for the transport.
    Status lost;                                     // not ok: the switch is of no use to this session any more
    bool cannot_complete = false;  // asked(), if it still waits: a rank has left that had not contributed to it
  };

  /// `session` outlives this, and is changed only before restart(). A switch that says
  /// nothing for `patience`, more than 0, is given up. Not one with a controller: its silence says nothing of the
  /// switch, unless `can_move`: there is somewhere else to go to, at no more than a loss of speed.
  SwitchLiveness(const SessionParameters& session, int shard, Duration patience, bool can_move, Time now);

  // ---- what the shard does ----
  /// A chunk was sent.
  void on_sent(Time now) {
    if (next_probe_ == kNever) next_probe_ = now + kFirstProbe;
  }
  /// Something was received, whatever it is.
  void on_received() {
    refused_since_ = kNever;
    socket_error_.clear();
  }
  /// A result for a use that is open.
  void on_result() { unanswered_ = 0; }
  /// A result was accepted; `waits`: for others.
  void on_accepted(bool waits, Time now) {
    stuck_since_ = now;
    next_probe_ = waits ? now + kFirstProbe : kNever;
    answered_at_ = kNever;
  }
  /// No chunk waits.
  void on_idle(Time now) { stuck_since_ = now; }
  Consequence on_reply(const wire::Reply& reply, Time now);
  /// The session has moved to another switch, and sends all that is open again.
  void restart(Time now);

  // ---- what is due; the first three only while chunks wait ----
  /// Whether on_socket_error() wants to know. Asking is a call into the kernel, so not with every burst.
  bool is_socket_error_due(Time now) const { return now >= next_socket_error_; }
  /// `error`: empty if there is none. `refused`: a host said that no socket listens there.
  void on_socket_error(const std::string& error, bool refused, Time now);
  /// Ok, or why the switch is given up.
  Status verdict(Time now) const;
  bool is_probe_due(Time now) const { return now >= next_probe_; }
  /// Whether no probe has been answered since the last one was sent.
  bool is_silent() const { return unanswered_ > 0; }
  /// Since the last result it has said that it has this worker's contribution to a use, and lacks others'.
  bool waits_for_others() const;
  /// Nothing was accepted for so long, for a reason that is known. Questions count: a process that was stopped has
  /// asked none meanwhile.
  bool is_slow(Duration bound, Time now) const;
  /// Asks about the use that all wait for.
  Request probe(const Use& use, Time now);
  bool is_keep_alive_due(Time now) const { return now >= next_keep_alive_; }
  /// Joins have this introduction: until one is answered, because the transport does not know the switch any more; or
  /// of places all, because one without would have results sent elsewhere.
  void meet(const wire::Introduction& own) { introduction_ = own; }
  /// Whether the next one is due, of joins until the transport knows the switch again.
  bool is_meeting_due(Time now) const { return now >= next_meeting_; }
  /// It came to nothing: `why`. Once it has for `patience`, the switch is given up.
  void on_no_pair(const std::string& why, Time now);
  void on_pair() { vain_meetings_ = 0; }
  Request keep_alive(Time now);
  /// When something is due. `waits`: whether chunks do.
  Time next_wakeup(bool waits) const { return waits ? std::min(next_keep_alive_, next_probe_) : next_keep_alive_; }

  /// The use that was asked about last.
  const Use& asked() const { return asked_; }
  /// What is missing, for messages: "no contribution from rank 1 for 2 s: ...".
  std::string missing_text(Time now) const;

 private:
  /// Without a result for so long, the switch is asked which workers are waited for.
  static constexpr Duration kFirstProbe = milliseconds(300);

  Duration probe_interval() const;
  bool on_probe_reply(const wire::Reply& reply, Time now);
  Request join();
  Status lost(wire::ReplyStatus status) const;
  std::string missing_ranks() const;
  bool is_fresh(Time now) const;  // the last answer

  const SessionParameters& session_;
  const int shard_;
  const Duration patience_;
  const bool can_move_;

  Time stuck_since_ = kNever;  // since when nothing was accepted though something waits
  Time next_probe_ = kNever;
  Use asked_;
  uint32_t probe_request_ = 0;
  int unanswered_ = 0;         // probes since the switch was heard
  wire::ProbeReply answer_;    // the last one
  Time answered_at_ = kNever;  // kNever also once something was accepted after it
  uint32_t left_request_ = 0;  // Probe of the last counted answer.
  int left_answers_ = 0;       // answers in a row that a rank has left without contributing

  Time next_socket_error_{};
  Time refused_since_ = kNever;  // since when the switch's host refuses our frames
  std::string socket_error_;

  Time next_keep_alive_;
  uint32_t join_request_ = 0;
  Time next_meeting_{};
  int vain_meetings_ = 0;  // since a pair could be had
  std::string no_pair_;    // why not
  std::optional<wire::Introduction> introduction_;
  uint64_t cookie_ = 0;    // see wire::Membership
  bool proven_ = false;    // shown a new cookie since the last keep-alive was due
  bool doubted_ = false;   // the last reply to a join said that the switch speaks another version
  uint32_t next_request_;  // Starts from a secret of the members, so that no other can forge an answer.
};

}  // namespace switchml
