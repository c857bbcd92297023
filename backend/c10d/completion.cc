#include "c10d/completion.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace switchml {
namespace {
/// Without progress for so long, running tasks count as blocked.
constexpr std::chrono::milliseconds kStall{1};

thread_local bool is_worker = false;
}  // namespace

/// Shared with the threads, so that a pool may go away on one of its own threads.
struct CompletionPool::State {
  mutable std::mutex mutex;
  std::condition_variable work;   // a task came, or the end
  std::condition_variable stall;  // tasks wait and no thread is free, or the end
  std::deque<Task> tasks;
  std::vector<std::thread> threads;
  std::thread supervisor;
  size_t idle = 0;
  size_t taken = 0;  // tasks begun: the measure of progress
  bool started = false;
  bool ending = false;

  bool starved() const { return !tasks.empty() && idle == 0; }
};

namespace {

template <typename State>
void worker_loop(const std::shared_ptr<State>& state) {
  is_worker = true;
  std::unique_lock<std::mutex> lock(state->mutex);
  for (;;) {
    ++state->idle;
    state->work.wait(lock, [&] { return state->ending || !state->tasks.empty(); });
    --state->idle;
    if (state->tasks.empty()) return;
    CompletionPool::Task task = std::move(state->tasks.front());
    state->tasks.pop_front();
    ++state->taken;
    if (state->starved() || state->ending) state->stall.notify_one();
    lock.unlock();
    task();
    task = nullptr;  // whatever it holds goes before the next one waits
    lock.lock();
  }
}

template <typename State>
void supervise(const std::shared_ptr<State>& state) {
  std::unique_lock<std::mutex> lock(state->mutex);
  for (;;) {
    state->stall.wait(lock, [&] { return state->starved() || (state->ending && state->tasks.empty()); });
    if (state->tasks.empty()) return;
    const size_t taken = state->taken;
    lock.unlock();
    std::this_thread::sleep_for(kStall);
    lock.lock();
    if (state->starved() && state->taken == taken) {
      state->threads.emplace_back([state] { worker_loop(state); });
    }
  }
}

}  // namespace

CompletionPool::CompletionPool() : state_(std::make_shared<State>()) {}

CompletionPool::~CompletionPool() { join(); }

void CompletionPool::post(Task task) {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    if (!state_->ending) {
      if (!state_->started) {
        state_->started = true;
        state_->threads.emplace_back([state = state_] { worker_loop(state); });
        state_->supervisor = std::thread([state = state_] { supervise(state); });
      }
      state_->tasks.push_back(std::move(task));
      state_->work.notify_one();
      if (state_->starved()) state_->stall.notify_one();
      return;
    }
  }
  task();
}

void CompletionPool::join() {
  std::thread supervisor;
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->ending = true;
    state_->work.notify_all();
    state_->stall.notify_all();
    supervisor = std::move(state_->supervisor);
  }
  const auto finish = [](std::thread& thread) {
    if (!thread.joinable()) return;
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
    } else {
      thread.join();
    }
  };
  // The supervisor stays until the queue is empty: tasks that are left may block each other as any others may. Only it
  // adds threads, so the list is final afterwards.
  finish(supervisor);
  std::vector<std::thread> threads;
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    threads.swap(state_->threads);
  }
  for (std::thread& thread : threads) finish(thread);
}

bool CompletionPool::on_its_thread() { return is_worker; }

size_t CompletionPool::threads() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->threads.size();
}

}  // namespace switchml
