// Messages between the ranks of a group, with the real clock: a caller that waits for one does the work, and a thread
// of its own does what no caller waits for. It has nothing to do with the engine's thread, so that neither collectives
// nor messages wait for each other.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/idle_wait.h"
#include "messages/message_transport.h"
#include "messages/messenger.h"

namespace switchml {

/// Thread-safe.
class Messages {
 public:
  /// `spin`: not 0 if a wait may busy-poll (IdleWait).
  Messages(std::unique_ptr<MessageTransport> transport, Duration spin);
  /// close().
  ~Messages();
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  /// Posts a message; `done` may run before this returns, and does where the system gives no thread. Precondition: as
  /// of Messenger.
  void send(Message message);
  void receive(Message message);
  /// The calling thread does the work, until `over` or `end`. False, at once: another one does.
  bool work_until(const std::function<bool()>& over, Time end);

  /// As of Messenger; the first time counts.
  void fail(const Status& status);
  /// `callback`, or null, is told once why messages have failed by themselves: a timeout, or for lack of memory.
  void when_failed(std::function<void(const Status&)> callback);
  /// The rank has left.
  void note_left(int rank) { transport_->note_left(rank); }
  /// Ends what is left, and the thread. Idempotent.
  void close();

  const WorkerCounters& counters() const { return messenger_.counters(); }

 private:
  using Lock = std::unique_lock<std::mutex>;
  Lock lock();
  void let_in(Lock& held);
  void post(Message message, void (Messenger::*give)(Message));
  void run();
  bool step(Lock& held);
  void tell(Lock& held);
  template <typename Found>
  void wait_a_moment(IdleWait& wait, Time end, const Found& found);
  void hand_over();

  const std::unique_ptr<MessageTransport> transport_;
  std::atomic<int> waiting_{0};  // threads that wait for the mutex
  std::mutex mutex_;             // guards what follows
  std::condition_variable told_all_;
  Messenger messenger_;
  bool taken_ = false;  // a caller looks after all messages
  bool stop_ = false;
  int telling_ = 0;             // threads that call what was given to them
  Time thread_until_ = kNever;  // when the thread looks by itself
  std::function<void(const Status&)> on_failure_;
  bool told_failure_ = false;
  CallersIdleWait callers_wait_;
  std::thread thread_;
};

}  // namespace switchml
