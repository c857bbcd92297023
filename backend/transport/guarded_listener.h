// A TCP listener in front of a server that cannot defend itself against peers that only connect, as gRPC's cannot: it
// keeps watch over all connections, and hands the server no more of them than it has room for.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>

#include "base/clock.h"
#include "base/status.h"
#include "socket/fd.h"
#include "transport/tcp_silence.h"

namespace switchml {

struct ConnectionLimits {
  size_t in_all = 1;
  size_t from_address = 1;  // a part of these, so that one address keeps no other out
};

/// What fits into half of the descriptors that this process may have, where a connection takes `descriptors`: strangers
/// must not take those of the program that serves.
ConnectionLimits connection_limits(size_t descriptors);

/// One more connection than its limits allow takes the place of one that has been silent longest: of those from its
/// address, or from the address with the most. One over which nothing comes at all is closed after `patience`. That it
/// closes some is logged, once a minute. Where there is no descriptor it goes on when there is. Has a thread.
class GuardedListener {
 public:
  /// Takes over a connection, from the listener's thread. It is over where that calls shutdown(), as gRPC does: another
  /// descriptor of it stays open here until then.
  using Take = std::function<void(Fd)>;
  static constexpr size_t kDescriptors = 2;  // each connection takes two
  static constexpr Duration kPatience = seconds(10);

  /// Listens from now on, for start(). A wildcard address takes IPv6 and IPv4. `what` names the setting in an error
  /// about the text: "--listen". kUnavailable: the address cannot be had.
  static Result<std::unique_ptr<GuardedListener>> open(const std::string& text, const std::string& what);
  /// `name`: for the log.
  void start(const std::string& name, ConnectionLimits limits, Take take, Duration patience = kPatience);
  ~GuardedListener();
  GuardedListener(const GuardedListener&) = delete;
  GuardedListener& operator=(const GuardedListener&) = delete;

  /// The address, and the port that it really has.
  Endpoint local() const;
  /// Takes no more connections; those that there are go on. Idempotent.
  void stop();
  /// Ends all that there are. After stop().
  void cut();
  /// In a forked child, which has none of its threads: the port is no longer the child's.
  void close_in_child() { listener_ = Fd(); }

 private:
  struct Guest;
  using Silence = SilenceOrder<Guest>;

  GuardedListener(Fd listener, Fd epoll, Fd end);
  void run();
  void hear(Guest* guest, uint32_t events);
  void accept_some();
  void admit(Fd connection, const Endpoint& host);
  void make_room(const Silence::List& crowd, const std::string& why);
  void close(Guest* guest);
  void close_the_mute();
  int patience_ms() const;
  void rest(bool rests);

  Fd listener_, epoll_;
  Fd end_;  // readable: run() is to end
  std::string name_;
  ConnectionLimits limits_;
  Take take_;
  Duration patience_{};
  std::unordered_map<Guest*, std::unique_ptr<Guest>> guests_;
  Silence silence_;
  size_t mute_ = 0;  // guests that have sent nothing yet
  bool rests_ = false;
  Time quiet_until_{};  // the log says nothing before
  std::thread thread_;
};

}  // namespace switchml
