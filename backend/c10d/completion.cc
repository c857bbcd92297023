#include "c10d/completion.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/thread.h"

namespace switchml {
namespace {

/// Without progress for so long, running tasks count as blocked; twice as long for each thread more.
constexpr std::chrono::milliseconds kStall{10};
constexpr std::chrono::seconds kIdle{2};

/// What this thread does, if it is one of a pool.
struct Here {
  CompletionPool::State* state = nullptr;
  size_t level = 0;
};
thread_local Here here;
thread_local bool runs_posted_task = false;  // True while the posting thread runs it, for want of a thread.

}  // namespace

/// Shared with the threads, so that a pool may go away on one of its own threads. Its members need the lock.
struct CompletionPool::State : std::enable_shared_from_this<CompletionPool::State> {
  struct Level {
    std::deque<Task> tasks;
    size_t active = 0;  // running, and not in a Wait
  };

  mutable std::mutex mutex;
  std::condition_variable work;   // a task may be taken, or the end
  std::condition_variable stall;  // tasks wait for others, a thread has ended, or the end
  std::array<Level, kLevels> levels;
  std::vector<std::thread> threads;
  std::vector<std::thread> ended;
  std::thread supervisor;
  bool supervised = false;
  size_t extra = 0;  // threads beyond one that each level may have
  size_t starting = 0;
  size_t idle = 0;
  size_t running = 0;
  size_t queued = 0;
  size_t taken = 0;  // tasks begun: the measure of progress
  bool ending = false;

  bool done() const { return ending && queued == 0; }

  /// The deepest level with a task that may begin.
  std::optional<size_t> next() const {
    for (size_t level = levels.size(); level-- > 0;) {
      if (!levels[level].tasks.empty() && levels[level].active <= extra) return level;
    }
    return std::nullopt;
  }
  /// Whether tasks wait: all for others of their levels, or for a thread that the system has refused.
  bool stuck() const { return queued > 0 && (!next() || idle + starting == 0); }

  /// False: the system refuses a thread; what is there goes on.
  bool add_thread() {
    try {
      threads.emplace_back([self = shared_from_this()] { self->serve(); });
    } catch (const std::exception&) {
      return false;
    }
    ++starting;
    return true;
  }

  /// Finds a thread for a task that may begin, and sees to those that may not.
  void wake() {
    if (next()) {
      if (idle + starting > 0) {
        work.notify_one();
      } else if (!add_thread()) {
        supervise_it();
      }
    } else if (queued > 0) {
      supervise_it();
    }
  }

  void supervise_it() {
    stall.notify_one();
    if (supervised) return;
    try {
      supervisor = std::thread([self = shared_from_this()] { self->supervise(); });
      supervised = true;
    } catch (const std::exception&) {
      return;  // perhaps next time
    }
  }

  void serve() {
    std::unique_lock<std::mutex> lock(mutex);
    --starting;
    for (;;) {
      ++idle;
      const auto called = [this] { return done() || next(); };
      if (threads.size() > 1) {
        work.wait_for(lock, kIdle, called);
      } else {
        work.wait(lock, called);
      }
      --idle;
      if (const std::optional<size_t> level = next()) {
        run(*level, lock);
      } else if (done() || threads.size() > 1) {
        return retire();
      }
    }
  }

  void run(size_t level, std::unique_lock<std::mutex>& lock) {
    Task task = std::move(levels[level].tasks.front());
    levels[level].tasks.pop_front();
    --queued;
    ++taken;
    ++running;
    ++levels[level].active;
    wake();
    here = {this, level};
    lock.unlock();
    task();
    task = nullptr;  // whatever it holds goes before the next one waits
    lock.lock();
    here = {};
    --levels[level].active;
    if (--running == 0) extra = 0;
    if (done()) {
      work.notify_all();
      stall.notify_all();
    }
  }

  /// The calling thread will be joined.
  void retire() {
    const auto self = std::find_if(threads.begin(), threads.end(), [](const std::thread& thread) {
      return thread.get_id() == std::this_thread::get_id();
    });
    if (self == threads.end()) return;
    ended.push_back(std::move(*self));
    threads.erase(self);
    supervise_it();
  }

  void supervise() {
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      stall.wait(lock, [&] { return stuck() || !ended.empty() || done(); });
      if (done()) return;
      std::vector<std::thread> gone;
      gone.swap(ended);
      const size_t before = taken;
      const auto period = kStall * (1 << extra);
      lock.unlock();
      for (std::thread& thread : gone) thread.join();
      lock.lock();
      stall.wait_for(lock, period, [&] { return !stuck() || taken != before || done(); });
      if (!stuck() || taken != before) continue;
      if (next() || extra + 1 < kMostPerLevel) {
        if (!next()) ++extra;
        wake();
      } else {
        stall.wait(lock, [&] { return !stuck() || taken != before || !ended.empty() || done(); });
      }
    }
  }
};

CompletionPool::CompletionPool() : state_(std::make_shared<State>()) {}

CompletionPool::~CompletionPool() { join(); }

Status CompletionPool::start() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  if (state_->ending || !state_->threads.empty() || state_->add_thread()) return Status::ok_status();
  return NoThread("the completion of calls").status();
}

void CompletionPool::post(Task task, size_t level) {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    if (!state_->ending && (!state_->threads.empty() || state_->add_thread())) {
      state_->levels.at(level).tasks.push_back(std::move(task));
      ++state_->queued;
      state_->wake();
      return;
    }
  }
  const bool within = std::exchange(runs_posted_task, true);
  task();
  runs_posted_task = within;
}

size_t CompletionPool::level_here() { return here.state == nullptr ? 0 : std::min(here.level + 1, kLevels - 1); }

CompletionPool::Wait::Wait() {
  if (here.state == nullptr) return;
  const std::lock_guard<std::mutex> lock(here.state->mutex);
  --here.state->levels[here.level].active;
  here.state->wake();
}

CompletionPool::Wait::~Wait() {
  if (here.state == nullptr) return;
  const std::lock_guard<std::mutex> lock(here.state->mutex);
  ++here.state->levels[here.level].active;
}

void CompletionPool::join() {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->ending = true;
    state_->work.notify_all();
    state_->stall.notify_all();
  }
  const auto finish = [](std::thread& thread) {
    if (!thread.joinable()) return;
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
    } else {
      thread.join();
    }
  };
  // The supervisor stays until the queues are empty: tasks that are left may block each other as any others may, and so
  // add threads.
  for (;;) {
    std::vector<std::thread> threads;
    {
      const std::lock_guard<std::mutex> lock(state_->mutex);
      for (std::thread& thread : state_->threads) threads.push_back(std::move(thread));
      for (std::thread& thread : state_->ended) threads.push_back(std::move(thread));
      if (state_->supervisor.joinable()) threads.push_back(std::move(state_->supervisor));
      state_->threads.clear();
      state_->ended.clear();
    }
    if (threads.empty()) return;
    for (std::thread& thread : threads) finish(thread);
  }
}

void CompletionPool::rest() {
  join();
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->ending = state_->supervised = false;
}

bool CompletionPool::on_its_thread() { return here.state != nullptr || runs_posted_task; }

size_t CompletionPool::threads() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->threads.size();
}

}  // namespace switchml
