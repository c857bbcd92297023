// When the switch is lost: the ranks stop, find out how far each has come, hand each other the results that some have
// and others lack, and go on without the switch where they stopped. No collective is repeated or lost.
//
//   each rank, in the store                  what the others do with it
//   state/R: last accepted use per slot      all read all: who is ahead, slot by slot
//   kept/R: the results that R alone has     who lacks one takes it, and judges it like any other
//   ready/R: ok, or what went wrong          nobody goes on before everybody has what it lacked
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "session/detour.h"
#include "session/session.h"
#include "slots/catchup.h"

namespace switchml {

struct FailoverOptions {
  GroupInfo group;
  SessionParameters session;
  MakeReducer make_reducer;
  /// Tells the other ranks; they call heard() with the text. Up to 255 bytes.
  std::function<void(const std::string& text)> tell;
};

/// Thread-safe; has a thread of its own.
class Failover {
 public:
  /// All borrowed: they live longer.
  Failover(Engine& engine, Rendezvous& store, FailoverOptions options);
  /// A move that is under way fails.
  ~Failover();

  /// The switch is lost, as this rank has found. Only the first time counts, whoever finds it; returns at once.
  void begin(const std::string& why);
  /// What another rank told all.
  void heard(int rank, const std::string& text);
  /// A rank has left the group: nobody waits for it any more.
  void heard_leave(int rank) { roster_->leaves(rank); }
  /// Whether the streams go past the switch.
  bool moved() const { return moved_.load(); }

 private:
  void begin(const std::string& why, bool told);
  void run();
  Status move();
  void make_detour(std::unique_ptr<RankReducer> reducer);
  void on_detour_failure(const Status& status);
  Status catch_up();
  Result<Catchup> plan();
  Status take_over(const Catchup& plan);
  Status wait_for_all(const Status& mine);
  Status say(const std::string& what, const std::string& text);
  Result<std::string> hear(const std::string& what, int rank);

  Engine& engine_;
  Rendezvous& store_;
  const FailoverOptions options_;
  const std::shared_ptr<Roster> roster_;
  std::mutex mutex_;
  std::string why_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
  std::unique_ptr<Detour> detour_;
  std::atomic<bool> moved_{false};
};

}  // namespace switchml
