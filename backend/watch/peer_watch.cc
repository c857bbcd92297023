#include "watch/peer_watch.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <list>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/thread.h"
#include "socket/address.h"
#include "socket/close_on_fork.h"
#include "socket/sockaddr.h"

namespace switchml {

namespace {

constexpr Duration kGreetingTime = seconds(5);  // For a greeting, and for each try to connect.
constexpr Duration kEntryTime = seconds(30);    // A rank that is not greeted tries again for so long.
constexpr Duration kAgain = milliseconds(20);   // before it does
constexpr size_t kStrangers = 16;               // Connections that have not greeted yet, beyond the ranks expected.
constexpr Duration kRest = milliseconds(100);   // The listener's, where there is no descriptor.
constexpr int kAtOnce = 64;                     // Connections that are taken before the others are heard.

Fd tcp_socket(int family) { return Fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

/// Throws StatusError: without it a thread could not be told to end.
Fd make_wake() {
  Fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (wake.valid()) return wake;
  throw StatusError({Code::kUnavailable,
                     std::string("cannot open an eventfd for the watch over the ranks: ") + std::strerror(errno)});
}

int milliseconds_until(Time when) {
  if (when == kNever) return -1;
  const auto left = std::chrono::duration_cast<milliseconds>(when - monotonic_now()).count();
  return static_cast<int>(std::max<decltype(left)>(0, std::min<decltype(left)>(left + 1, 60000)));
}

std::string loss_text(int rank, const std::string& process, int error, Duration patience) {
  const bool silent = error != 0 && error != ECONNRESET && error != EPIPE && error != ECONNREFUSED;
  std::string text = "rank " + std::to_string(rank) + (process.empty() ? "" : " (" + process + ")") + " is gone: ";
  if (error == EBADMSG) return text + "it does not speak as a rank does";
  if (!silent) return text + "its process has ended without leaving the group";
  const auto whole = std::chrono::duration_cast<seconds>(patience).count();
  return text + "its host has not answered for " + std::to_string(whole) + " s (" + std::strerror(error) + ")";
}

}  // namespace

std::string this_process() {
  char host[HOST_NAME_MAX + 1] = {};
  if (::gethostname(host, sizeof host - 1) != 0) return "process " + std::to_string(::getpid());
  return std::string(host).substr(0, 150) + ", process " + std::to_string(::getpid());
}

std::string text_of_death(int rank, const std::string& process) { return loss_text(rank, process, 0, {}); }

// ---- rank 0 ----

class PeerWatch::Server {
 public:
  Server(PeerWatch& watch, Fd listener, std::shared_ptr<const seal::StreamDoorOwner> door)
      : watch_(watch), options_(watch.options_), door_(std::move(door)), listener_(std::move(listener)) {
    close_on_fork(listener_.get());
  }
  ~Server() { close_forgotten(listener_.release()); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void run() {
    while (!watch_.stopped()) {
      std::vector<pollfd> polled = {{watch_.wake_.get(), POLLIN, 0}, {accepts() ? listener_.get() : -1, POLLIN, 0}};
      for (const Peer& peer : peers_) polled.push_back({peer.connection.fd(), POLLIN, 0});
      if (::poll(polled.data(), polled.size(), milliseconds_until(next_deadline())) < 0 && errno != EINTR) return;
      if (polled[0].revents != 0) {
        tell_outgoing();
      }
      size_t i = 2;
      for (auto peer = peers_.begin(); peer != peers_.end();) {
        const bool keep = (polled[i++].revents == 0 || hear(*peer)) && still_welcome(*peer);
        peer = keep ? std::next(peer) : drop(peer);
      }
      if (polled[1].revents != 0) accept();
    }
    tell_outgoing();
    for (Peer& peer : peers_) {
      if (peer.rank < 0) continue;  // It may repeat what a rank came in with, and so have that one's keys. [SEAL-34]
      peer.connection.send({PeerWord::kFarewell, 0, ""});
      peer.connection.finish();
    }
  }

 private:
  struct Peer {
    Peer(ByteStream stream, Duration patience, std::string from)
        : connection(std::move(stream), patience), address(std::move(from)) {}
    PeerConnection connection;
    std::string address;
    Time since = monotonic_now();
    int rank = -1;  // not known yet
    std::string process;
    bool farewell = false;
  };

  bool accepts() const {
    return static_cast<int>(greeted_.size()) < options_.size - 1 && monotonic_now() >= rests_until_;
  }

  Time next_deadline() const {
    Time next = rests_until_ > monotonic_now() ? rests_until_ : kNever;
    for (const Peer& peer : peers_) {
      if (peer.rank < 0) next = std::min(next, peer.since + kGreetingTime);
    }
    return next;
  }

  static bool still_welcome(const Peer& peer) { return peer.rank >= 0 || monotonic_now() < peer.since + kGreetingTime; }

  // A connection that does not greet gives way to newcomers, the oldest first of the address with most of them:
  // strangers that hold connections keep no rank out, for that greets at once, and comes again where it had to give
  // way.
  void accept() {
    const size_t most = static_cast<size_t>(options_.size) + kStrangers;
    for (int i = 0; i < kAtOnce; ++i) {
      sockaddr_storage address{};
      socklen_t size = sizeof address;
      Fd socket(::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
      const bool shortage = !socket.valid() && is_shortage(errno);
      if (shortage || peers_.size() >= most) forget_a_stranger();
      if (shortage) rests_until_ = monotonic_now() + kRest;  // the listener stays readable
      if (!socket.valid()) return;
      const Endpoint from = endpoint_of(reinterpret_cast<const sockaddr*>(&address));
      peers_.emplace_back(ByteStream(std::move(socket), door_.get()), options_.patience, to_literal(from));
      if (!hear(peers_.back())) drop(std::prev(peers_.end()));
    }
  }

  void forget_a_stranger() {
    std::map<std::string, size_t> crowds;
    for (const Peer& peer : peers_) {
      if (peer.rank < 0) ++crowds[peer.address];
    }
    const auto most = std::max_element(crowds.begin(), crowds.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == crowds.end()) return;
    peers_.erase(std::find_if(peers_.begin(), peers_.end(),
                              [&](const Peer& peer) { return peer.rank < 0 && peer.address == most->first; }));
  }

  bool hear(Peer& peer) {
    bool honest = true;
    int error = 0;
    const bool open = peer.connection.receive(
        [&](const PeerMessage& message) {
          if (peer.rank < 0) honest = honest && message.word == PeerWord::kGreeting && greet(peer, message);
          if (message.word == PeerWord::kFarewell && peer.rank >= 0) see_off(&peer);
          if (message.word == PeerWord::kGivenUp && peer.rank >= 0 && !peer.farewell)
            lose({message.word, peer.rank, message.text});
          if (message.word == PeerWord::kNews && peer.rank >= 0) {
            tell(message);
            if (options_.on_news) options_.on_news(peer.rank, message.text);
          }
        },
        &error);
    if (open && honest) return true;
    if (peer.rank >= 0 && !peer.farewell) {
      lose({PeerWord::kLoss, peer.rank, loss_text(peer.rank, peer.process, error, options_.patience)});
    }
    return false;
  }

  bool greet(Peer& peer, const PeerMessage& message) {
    if (message.rank < 1 || message.rank >= options_.size) return false;
    if (!greeted_.insert(message.rank).second) return false;  // [SEAL-31]
    peer.rank = message.rank;
    peer.process = message.text;
    peer.connection.send({PeerWord::kGreeting, 0, ""});
    for (const PeerMessage& loss : losses_) peer.connection.send(loss);
    ++watch_.connected_;
    return true;
  }

  void see_off(Peer* leaver) {
    leaver->farewell = true;
    for (Peer& peer : peers_) {
      if (options_.tells_leaves && peer.rank >= 0 && &peer != leaver)
        peer.connection.send({PeerWord::kFarewell, leaver->rank, ""});
    }
    if (options_.on_leave) options_.on_leave(leaver->rank);
  }

  void lose(const PeerMessage& loss) {
    tell(loss);
    if (!watch_.stopped()) options_.on_loss(loss.rank, loss.text, loss.word == PeerWord::kLoss);
  }

  // Tells all but the rank that it is about; ranks that come later hear of losses, too.
  void tell(const PeerMessage& message) {
    if (message.word == PeerWord::kLoss || message.word == PeerWord::kGivenUp) losses_.push_back(message);
    for (Peer& peer : peers_) {
      if (peer.rank >= 0 && peer.rank != message.rank) peer.connection.send(message);
    }
  }

  void tell_outgoing() {
    for (const PeerMessage& message : watch_.take_outgoing()) tell(message);
  }

  std::list<Peer>::iterator drop(std::list<Peer>::iterator peer) {
    if (peer->rank >= 0) --watch_.connected_;
    return peers_.erase(peer);
  }

  PeerWatch& watch_;
  const PeerWatchOptions& options_;
  const std::shared_ptr<const seal::StreamDoorOwner> door_;
  Fd listener_;
  std::list<Peer> peers_;
  std::vector<PeerMessage> losses_;
  std::set<int> greeted_;  // Ranks that have ever been.
  Time rests_until_{};
};

// ---- the others ----

class PeerWatch::Client {
 public:
  Client(PeerWatch& watch, const Endpoint& server, const seal::StreamDoor& door)
      : watch_(watch), options_(watch.options_), server_(server), door_(door) {}

  void run() {
    const Time end = monotonic_now() + kEntryTime;
    for (;;) {
      const int error = enter();
      watch_.connected_ = 0;
      if (error == 0 || watch_.stopped()) return;
      if (error == ECONNREFUSED || monotonic_now() >= end) return give_up(error);
      for (PeerMessage& message : watch_.take_outgoing())
        untold_.push_back(std::move(message));  // or its wake-up stays
      pollfd polled{watch_.wake_.get(), POLLIN, 0};
      ::poll(&polled, 1, milliseconds_until(monotonic_now() + kAgain));
    }
  }

 private:
  // Why rank 0 does not know this rank; 0 after it did.
  int enter() {
    Fd socket = tcp_socket(family_of(server_));
    if (const int error = connect(socket); error != 0) return error;
    ByteStream stream(std::move(socket), door_, {});
    if (!stream.valid()) return EBADMSG;
    PeerConnection connection(std::move(stream), options_.patience);
    connection.send({PeerWord::kGreeting, options_.rank, options_.process.substr(0, 200)});
    for (const PeerMessage& message : untold_) connection.send(message);
    return listen(connection);
  }

  int connect(const Fd& socket) const {
    if (!socket.valid()) return errno;
    if (::connect(socket.get(), as_sockaddr(server_), server_.size) == 0) return 0;
    if (errno != EINPROGRESS) return errno;
    // What there is to tell waits; a farewell does not.
    int ready = 0;
    const Time end = monotonic_now() + kGreetingTime;
    while (ready == 0 && !watch_.stopped() && monotonic_now() < end) {
      pollfd polled{socket.get(), POLLOUT, 0};
      ready = ::poll(&polled, 1, 20);
    }
    int error = ETIMEDOUT;
    socklen_t size = sizeof error;
    if (ready != 0) ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
  }

  bool may_have_left() const { return !options_.rank_0_left || options_.rank_0_left(); }

  void give_up(int error) const {
    const bool turned_away = error == ECONNREFUSED || error == ECONNRESET;
    if (turned_away && !may_have_left()) return options_.on_loss(0, loss_text(0, "", error, options_.patience), true);
    complain(error);
  }

  // Refused: rank 0 has left already, which is its right.
  void complain(int error) const {
    const LogLevel level = error == ECONNREFUSED || !options_.warn_unheard ? LogLevel::kInfo : LogLevel::kWarning;
    if (!log_enabled(level)) return;
    log_line(level, __FILE__, __LINE__,
             "rank " + std::to_string(options_.rank) + " cannot reach rank 0 at TCP " + to_string(server_) + " (" +
                 std::strerror(error) + "): the death of a rank is noticed by timeouts only");
  }

  void tell(PeerConnection& connection) {
    for (const PeerMessage& message : watch_.take_outgoing()) {
      connection.send(message);
      if (watch_.connected_ == 0) untold_.push_back(message);
    }
  }

  // As enter(): until the connection is over.
  int listen(PeerConnection& connection) {
    bool farewell = false;
    while (true) {
      pollfd polled[] = {{watch_.wake_.get(), POLLIN, 0}, {connection.fd(), POLLIN, 0}};
      if (::poll(polled, 2, -1) < 0 && errno != EINTR) return 0;
      const bool stopped = watch_.stopped();  // before what there is to tell is looked at
      if (polled[0].revents != 0 || stopped) tell(connection);
      if (stopped) {
        connection.send({PeerWord::kFarewell, options_.rank, ""});
        connection.finish();
        return 0;
      }
      int error = 0;
      const bool open = connection.receive(
          [&](const PeerMessage& message) {
            if (message.word == PeerWord::kGreeting) watch_.connected_ = 1;
            if (message.word == PeerWord::kFarewell) {
              farewell = farewell || message.rank == 0;
              if (options_.on_leave) options_.on_leave(message.rank);
            }
            const bool gone = message.word == PeerWord::kLoss;
            if (gone || message.word == PeerWord::kGivenUp) options_.on_loss(message.rank, message.text, gone);
            if (message.word == PeerWord::kNews && options_.on_news) options_.on_news(message.rank, message.text);
          },
          &error);
      if (open) continue;
      if (farewell) return 0;
      if (watch_.connected_ == 0) return ECONNRESET;
      options_.on_loss(0, loss_text(0, "", error, options_.patience), true);
      return 0;
    }
  }

  PeerWatch& watch_;
  const PeerWatchOptions& options_;
  const Endpoint server_;
  const seal::StreamDoor door_;
  std::vector<PeerMessage> untold_;  // News for rank 0 from before its greeting.
};

// ---- both ----

Result<Fd> PeerWatch::listen(const Endpoint& at) {
  Fd socket = tcp_socket(family_of(at));
  if (!socket.valid() || ::bind(socket.get(), as_sockaddr(at), at.size) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    return Status(Code::kUnavailable, "cannot listen on TCP " + to_string(at) + ": " + std::strerror(errno));
  }
  return socket;
}

PeerWatch::PeerWatch(const PeerWatchOptions& options, Fd listener, std::shared_ptr<const seal::StreamDoorOwner> door)
    : options_(options), owner_(::getpid()), wake_(make_wake()) {
  auto server = std::make_shared<Server>(*this, std::move(listener), std::move(door));
  thread_ = make_thread("the watch over the ranks", [this, server] { run([&] { server->run(); }); });
}

PeerWatch::PeerWatch(const PeerWatchOptions& options, const Endpoint& rank_0, const seal::StreamDoor& door)
    : options_(options), owner_(::getpid()), wake_(make_wake()) {
  auto client = std::make_shared<Client>(*this, rank_0, door);
  thread_ = make_thread("the watch over the ranks", [this, client] { run([&] { client->run(); }); });
}

void PeerWatch::run(const std::function<void()>& body) {
  pthread_setname_np(pthread_self(), "switchml-peers");
  body();
  is_over_ = true;
}

PeerWatch::~PeerWatch() {
  if (::getpid() != owner_) {
    thread_.detach();  // it exists in the parent only
    return;
  }
  stop_ = true;
  wake();
  thread_.join();
}

void PeerWatch::tell(const std::string& text) { put_out(PeerWord::kNews, text); }
void PeerWatch::give_up(const std::string& text) { put_out(PeerWord::kGivenUp, text); }

void PeerWatch::put_out(PeerWord word, const std::string& text) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    outgoing_.push_back({word, options_.rank, text});
  }
  wake();
}

std::vector<PeerMessage> PeerWatch::take_outgoing() {
  uint64_t count = 0;
  while (::read(wake_.get(), &count, sizeof count) < 0 && errno == EINTR) {
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(outgoing_, {});
}

void PeerWatch::wake() {
  const uint64_t one = 1;
  while (::write(wake_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

}  // namespace switchml
