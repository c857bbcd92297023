// A thread that steps something with the real clock, or a caller in its place.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "engine/engine.h"

namespace switchml {

class SteppedThread {
 public:
  virtual ~SteppedThread() = default;
  SteppedThread(const SteppedThread&) = delete;
  SteppedThread& operator=(const SteppedThread&) = delete;

  /// Has it look at what it was given. Thread-safe.
  void notify();
  /// Null where something is under way, or another caller is at it. Thread-safe.
  std::unique_ptr<CallerTurn> begin_turn();

 protected:
  static constexpr Duration kLongest = milliseconds(500);

  SteppedThread() = default;
  /// A derived class starts the thread when it is complete, or throws NoThread, and ends it before it is destroyed. No
  /// turn is under way then. stop() is idempotent; the last step takes what was submitted or asked for last.
  void start();
  void stop();
  bool stopped() const { return stop_.load(std::memory_order_acquire); }

 private:
  class Turn;
  void run();

  /// In the new thread, before all else.
  virtual void settle_in() const = 0;
  /// Callers want turns. False: only the thread can do the work. Thread-safe.
  virtual bool lets_callers_work() { return true; }
  /// A turn begins, or ends.
  virtual void begin_work_of_caller() {}
  virtual void end_work_of_caller() {}
  /// How long it may sleep while nothing is under way.
  virtual Duration rest() const { return kLongest; }
  /// Nothing is under way; `has_work`: something was submitted or asked for, or is due. Precondition: no other thread
  /// steps.
  virtual bool is_idle() const = 0;
  virtual bool has_work() const = 0;
  virtual bool step(Time now) = 0;
  /// Steps; where that has moved nothing, waits for a moment until there may be something to do, or over().
  virtual void step_or_wait(Time now, bool in_turn, const std::function<bool()>& over) = 0;
  /// Ends such a wait. Thread-safe.
  virtual void end_wait() = 0;

  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable work_;
  bool taken_ = false;  // a thread steps; guarded by mutex_
  std::thread thread_;
};

}  // namespace switchml
