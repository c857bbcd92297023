// One worker process while its job runs: its shards, stepped in virtual time, and the collectives that it calls.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "engine/shard.h"
#include "heap.h"
#include "program.h"
#include "record.h"
#include "sim_transport.h"
#include "stream_watch.h"

namespace switchml::sim {

struct RankOptions {
  EngineOptions engine;
  Packets packets;
  int tenant = 0;
  Duration patience = seconds(30);       // Bound for each collective.
  size_t window = 1;                     // Collectives that are called before the first of them has ended.
  Duration longest_pause{};              // Bound for pauses between calls.
  bool chooses_streams = false;          // Chooses each collective's stream, as hosts of several ranks do.
  std::function<void()> on_switch_lost;  // Null: a lost switch is an error.
};

class Rank {
 public:
  /// Called once for each collective, with its index, status and result.
  using Ended = std::function<void(size_t index, const Status& status, const uint8_t* output)>;
  Rank(const RankOptions& options, Program program, uint64_t seed, Carrier* carrier, Record* record, Ended ended);
  ~Rank();

  void step(Time now);
  /// The next time at which step() has something to do.
  Time next() const;
  void deliver(int shard, int from, std::vector<uint8_t> bytes);
  /// SIGSTOP, and SIGCONT at this time.
  void stop(Time until) { stopped_until_ = until; }
  // ---- to another session half-way, as Engine does it ----
  std::vector<uint32_t> suspend();
  std::vector<uint8_t> last_result(int slot) const;
  void supply(const std::vector<uint8_t>& frame);
  void resume(const Route& route);
  bool over() const { return ended_count_ == program_.size(); }
  uint64_t witness_failures() const;

 private:
  /// A collective between its call and its end.
  struct Running {
    std::vector<uint8_t> input;
    std::vector<uint8_t> output;  // Has guards around the elements.
    Time deadline{};
    int parts = 1;  // 2 with an announcement; they end in any order.
    Status first_error;
    int ends = 0;
  };
  struct Socket {
    std::unique_ptr<StreamWatch> watch;
    SimTransport* transport = nullptr;
    std::unique_ptr<Shard> shard;
    Time wakeup{};
    Time gathers_until{};  // Arrivals wait until then.
    Time due() const {
      return transport->woken ? Time{} : transport->arrived ? std::min(wakeup, gathers_until) : wakeup;
    }
    int account = kSimulator;
    size_t memory = 0;
    Heap heap;  // The heap of a shard that has done nothing yet.
  };
  static constexpr size_t kGuard = 64;
  static constexpr uint8_t kGuardByte = 0xa5;

  /// Calls into the shard, with its allocations counted (README.md).
  template <typename F>
  static auto in(const Socket& socket, F&& call) {
    const Charge charge(socket.account);
    return call(*socket.shard);
  }
  void add_socket(int shard);
  int slots_per_shard() const { return options_.engine.session.slots_per_shard(); }
  void submit_due(Time now);
  void submit(size_t index, Time now);
  decltype(Collective::kind) kind_of(const Call& call, const ElementRange& wanted, const uint8_t* input,
                                     uint8_t* output) const;
  void choose_stream(size_t index, Collective collective);
  void put(size_t stream, size_t index, Collective collective);
  void end_in_order(size_t stream, size_t number, const Status& status);
  void end_part(size_t index, const Status& status);
  void end(size_t index, const Status& status);
  void check_guards(const Running& running, size_t index);
  void hand_on(const std::shared_ptr<SharedCollective>& collective);
  void hand_on_chosen(Time now);
  bool run_sockets(Time now);
  void run(Socket& socket, Time now);
  void check_bounds(Time now);

  /// The collectives of one chosen stream: in order, but in no order with those of the other stream.
  struct Chosen {
    struct Part {
      size_t index = 0;  // Index of the collective.
      bool ended = false;
      Status status;
    };
    std::deque<std::shared_ptr<SharedCollective>> waiting;  // On the way to the shards.
    Time held_until{};
    std::deque<Part> parts;  // Not over: they end in order, as a board's.
    size_t over = 0;         // Number of ended parts before them.
  };

  const RankOptions options_;
  Program program_;
  Random random_;
  Carrier* carrier_;
  Record* record_;
  Ended ended_;
  std::vector<Socket> sockets_;
  std::vector<std::unique_ptr<Running>> running_;  // Index: collective.
  std::array<Chosen, 2> chosen_;                   // The short and the bulk stream.
  Status failure_;                                 // A failure in a chosen stream, which ends all its collectives.
  size_t submitted_ = 0;
  size_t ended_count_ = 0;
  Time next_submit_{};
  Time stopped_until_{};
  Time alarm_ = kNever;  // Deadline of the oldest collective.
};

}  // namespace switchml::sim
