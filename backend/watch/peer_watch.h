// Notices within moments that the process of another rank has ended. Every rank holds a TCP connection to rank 0, on
// which little is said but a greeting and a farewell: the kernel closes it when the process ends, however it ends, and
// goes on answering for a process that is merely stopped. Rank 0 tells the others. All of it is sealed, in every group.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "socket/endpoint.h"
#include "socket/fd.h"
#include "watch/peer_connection.h"

namespace switchml {

struct PeerWatchOptions {
  int rank = 0;
  int size = 1;
  std::string process;       // "host a, process 4711": of this rank, for the others' messages; up to 200 bytes
  Duration patience{};       // a host that does not answer for so long is taken for dead; counted in whole seconds
  bool warn_unheard = true;  // log a warning where rank 0 cannot be reached
  bool tells_leaves = true;  // rank 0: tells all others of each one's farewell
  /// A rank has ended without a farewell: "rank 2 (host a, process 4711) is gone: ...". Or it has given up (not
  /// `gone`), after which it may end as well. From the watch's thread; must not end the watch.
  std::function<void(int rank, const std::string& text, bool gone)> on_loss;
  /// A rank has said farewell. From the watch's thread; may be null.
  std::function<void(int rank)> on_leave;
  /// Asked where rank 0 cannot be reached, or ends before it has greeted this rank: whether it has left, as far as can
  /// be told otherwise. Null: it is taken to have. From the watch's thread; may wait a second.
  std::function<bool()> rank_0_left;
  /// What another rank tells all. From the watch's thread; may be null.
  std::function<void(int rank, const std::string& text)> on_news;
};

/// This process, as messages call it: PeerWatchOptions::process.
std::string this_process();
/// What on_loss is told where a process has ended; `process` may be empty.
std::string text_of_death(int rank, const std::string& process);

/// Thread-safe; has a thread of its own.
class PeerWatch {
 public:
  /// A socket for rank 0 to listen on; `at` with port 0 takes a free one.
  static Result<Fd> listen(const Endpoint& at);
  /// Rank 0: expects the others at `listener`, each once; `door` is what they come in at. Both throw StatusError: the
  /// system gives no thread or no descriptor.
  PeerWatch(const PeerWatchOptions& options, Fd listener, std::shared_ptr<const seal::StreamDoorOwner> door);
  /// Another rank. Connects from its thread, for half a minute again and again where rank 0 does not greet; where that
  /// fails, rank 0 does not know this rank and nothing is watched.
  PeerWatch(const PeerWatchOptions& options, const Endpoint& rank_0, const seal::StreamDoor& door);
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;
  /// Says farewell: no rank takes the end of this one for a loss. Does nothing in a forked child.
  ~PeerWatch();

  /// Tells all other ranks that are connected; up to 255 bytes.
  void tell(const std::string& text);
  /// The others' on_loss gets `text`, up to 255 bytes.
  void give_up(const std::string& text);

  /// How many ranks this one is connected with: they have greeted.
  int connected() const { return connected_.load(); }
  /// Nothing is watched any more; of another rank: rank 0 cannot be reached, or is gone.
  bool is_over() const { return is_over_.load(); }

 private:
  class Server;
  class Client;
  void run(const std::function<void()>& body);
  bool stopped() const { return stop_.load(); }
  /// What there is to tell since the last call; forgets that it was woken.
  std::vector<PeerMessage> take_outgoing();
  void put_out(PeerWord word, const std::string& text);
  void wake();

  const PeerWatchOptions options_;
  const pid_t owner_;
  Fd wake_;  // readable: there is something to tell, or it is time for a farewell
  std::atomic<bool> stop_{false};
  std::atomic<bool> is_over_{false};
  std::mutex mutex_;
  std::vector<PeerMessage> outgoing_;
  std::atomic<int> connected_{0};
  std::thread thread_;
};

}  // namespace switchml
