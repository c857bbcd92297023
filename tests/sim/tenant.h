// A job that uses the switch: sessions one after the other, each opened, joined, used and left by ranks that may call
// different things, be killed or cut off. It says which outcomes are right.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "program.h"
#include "rank.h"
#include "record.h"
#include "sim_transport.h"
#include "wire/control.h"

namespace switchml::sim {

/// The one thing that goes wrong in a session beside the weather.
enum class Trouble : uint8_t {
  kNone,
  kKillWorker,
  kRestartJob,
  kKillSwitch,
  kCutLong,
  kCutShort,
  kCutLinkLong,
  kCutLinkShort,
  kStop,
  kMismatch,
  kMove
};

/// Whether it may cost the session.
inline bool is_fatal(Trouble trouble) {
  return trouble == Trouble::kKillWorker || trouble == Trouble::kKillSwitch || trouble == Trouble::kCutLong ||
         trouble == Trouble::kCutLinkLong;
}

struct TenantOptions {
  int number = 0;
  int workers = 2;
  int shards = 1;
  int slots = 8;
  size_t payload = 256;
  int sessions = 2;
  bool controlled = false;      // A TreeController opens its sessions.
  bool exact_granted = false;   // Opens of exact sessions succeed.
  std::vector<int> attachment;  // Worker -> switch.
};

/// A tenant's means of making trouble.
struct World {
  bool plain = false;  // No mismatched calls.
  std::function<void(int switch_node)> kill_switch;
  std::function<void(int node, Duration how_long)> cut;
  std::function<void(int from, int to, Duration how_long)> cut_link;
  std::function<void()> change_weather;
  std::function<void(const std::vector<int>& sockets)> begin_session;  // Perhaps in other processes than before.
};

class Tenant {
 public:
  Tenant(const TenantOptions& options, uint64_t seed, Carrier* carrier, Record* record, World world);

  void step(Time now);
  Time next() const;
  void deliver(int from, int to, std::vector<uint8_t> bytes);
  bool finished() const { return phase_ == Phase::kFinished; }

  // ---- reports of the world ----
  void sent_a_frame() { ++frames_; }
  /// Something happened after which errors are allowed until this session is over.
  void disturb() { disturbed_ = disturbed_ || !(fails_over_ && phase_ == Phase::kRunning); }
  /// A frame of this session was damaged past its checksum. False: not this one, please.
  bool damage_may_hit(const wire::Header& header, bool in_words);
  bool is_session(uint8_t job, uint32_t epoch) const { return session_.epoch == epoch && session_.job == job; }
  bool is_open_to_damage(const wire::DataPacket& packet) const;

 private:
  enum class Phase { kOpening, kJoining, kRunning, kFinished };
  /// How far a move to another session has come.
  enum class Move { kNone, kSuspending, kOpening, kJoining, kResuming };
  /// A request that is repeated until it is answered.
  struct Asked {
    bool answered = false;
    uint32_t request_id = 0;
    uint64_t cookie = 0;  // The cookie of a join.
    Time again{};
    Duration patience = milliseconds(50);
  };

  void begin_session();
  void draw_trouble();
  void ask(Asked* asked, int node, const uint8_t* frame, size_t size, Time now);
  void send_open(Time now);
  void send_joins(Time now);
  void on_open_reply(const wire::Reply& reply);
  void on_join_reply(const wire::Reply& reply, int node);
  void reopen();
  void start_ranks();
  void make_trouble(Time now);
  void cut_link(size_t victim, Duration how_long);
  void step_ranks(Time now);

  // ---- tenant_move.cc ----
  void begin_move();
  void step_move(Time now);
  void suspend_due(Time now);
  void catch_up();
  void resume_due(Time now);
  void stagger();
  Time next_of_move() const;

  void leave(size_t worker, bool closes);
  void judge(size_t worker, size_t index, const Status& status, const uint8_t* output);
  void judge_error(size_t worker, size_t index, const Status& status);
  Packets packets() const { return {options_.payload, exact_, partial_sum_ranks_, host_ranks_, significant_bits_}; }
  void draw_packets();
  int switch_of(int worker) const { return options_.attachment[static_cast<size_t>(worker)]; }

  const TenantOptions options_;
  Random random_;
  Carrier* carrier_;
  Record* record_;
  World world_;
  Phase phase_ = Phase::kOpening;
  int sessions_done_ = 0;
  Time begun_{};

  // ---- the session ----
  SessionParameters session_;
  bool asks_for_exact_ = false;
  bool exact_ = false;  // The session is exact.
  size_t partial_sum_ranks_ = 0;
  int host_ranks_ = 1;  // Of the first worker.
  std::optional<int> significant_bits_;
  uint64_t client_key_ = 0;
  Asked open_;
  std::vector<Asked> joins_;  // Index: worker and shard.
  Program program_;
  std::vector<std::vector<uint8_t>> expected_;  // Index: collective; computed when first needed.
  std::vector<bool> known_;
  int mismatch_at_ = -1;
  size_t odd_one_ = 0;  // The rank that calls another collective there.
  Trouble trouble_ = Trouble::kNone;
  uint64_t trouble_after_ = 0;  // Frames.
  uint64_t frames_ = 0;
  bool disturbed_ = false;
  bool tainted_ = false;
  bool words_damaged_ = false;
  bool fails_over_ = false;  // Goes on in another session when the switch is lost.
  bool lingers_ = false;     // Ranks leave together, not each after its last collective.
  uint32_t request_ids_ = 0;
  std::vector<std::unique_ptr<Rank>> ranks_;  // null: killed, or has left

  // ---- a move of the session ----
  Move move_ = Move::kNone;
  bool lost_ = false;                            // some rank has lost the switch
  std::vector<Time> turn_at_;                    // when each rank suspends or resumes; kNever: it has
  std::vector<std::vector<uint32_t>> accepted_;  // Index: rank, slot.
};

}  // namespace switchml::sim
