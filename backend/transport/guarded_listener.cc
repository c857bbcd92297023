#include "transport/guarded_listener.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/parse.h"
#include "base/thread.h"
#include "socket/address.h"
#include "socket/sockaddr.h"
#include "transport/tcp_socket.h"

namespace switchml {

namespace {

constexpr size_t kMostConnections = 4096;
constexpr size_t kLeastFromAddress = 256;  // ranks of one host may be many
constexpr int kEvents = 64;
constexpr int kAccepts = 64;  // at once: a crowd must not hold up events of connections that are open
constexpr int kRestMs = 100;
constexpr int kLookMs = 500;
constexpr Duration kQuiet = seconds(60);

}  // namespace

ConnectionLimits connection_limits(size_t descriptors) {
  rlimit files{};
  size_t in_all = kMostConnections;
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY) {
    in_all = std::clamp<size_t>(files.rlim_cur / (2 * descriptors), 1, kMostConnections);
  }
  return {in_all, std::max<size_t>({in_all / 8, std::min(in_all / 2, kLeastFromAddress), 1})};
}

struct GuardedListener::Guest {
  Fd fd;
  bool mute = true;
  Time since = monotonic_now();
  Silence::Place place;
};

Result<std::unique_ptr<GuardedListener>> GuardedListener::open(const std::string& text, const std::string& what) {
  const auto address = resolve_address(text, what);
  if (!address.ok()) return address.status();
  auto listener = listen_tcp(address.value());
  if (!listener.ok()) {
    return Status(listener.status().code(), what + "=" + quoted(text) + ": " + listener.status().message());
  }
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  Fd end(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event event{EPOLLIN, {nullptr}};
  if (!epoll.valid() || !end.valid() || ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, end.get(), &event) != 0) {
    return Status(Code::kUnavailable, what + "=" + quoted(text) + ": " + std::system_category().message(errno));
  }
  return std::unique_ptr<GuardedListener>(
      new GuardedListener(std::move(listener.value()), std::move(epoll), std::move(end)));
}

GuardedListener::GuardedListener(Fd listener, Fd epoll, Fd end)
    : listener_(std::move(listener)), epoll_(std::move(epoll)), end_(std::move(end)) {}

void GuardedListener::start(const std::string& name, ConnectionLimits limits, Take take, Duration patience) {
  name_ = name;
  limits_ = limits;
  take_ = std::move(take);
  patience_ = patience;
  epoll_event event{EPOLLIN, {this}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener_.get(), &event);
  thread_ = make_thread("listening for " + name, [this] { run(); });
}

GuardedListener::~GuardedListener() { stop(); }

Endpoint GuardedListener::local() const { return local_endpoint(listener_.get()); }

void GuardedListener::stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  while (::write(end_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  thread_.join();
}

void GuardedListener::cut() {
  while (!guests_.empty()) close(guests_.begin()->first);
}

void GuardedListener::run() {
  pthread_setname_np(pthread_self(), "switchml-listen");
  for (;;) {
    epoll_event events[kEvents];
    const int count = ::epoll_wait(epoll_.get(), events, kEvents, patience_ms());
    bool accepts = std::exchange(rests_, false);
    if (accepts) rest(false);
    for (int i = 0; i < count; ++i) {
      void* const who = events[i].data.ptr;
      if (who == nullptr) return;
      if (who == this) {
        accepts = true;
      } else {
        hear(static_cast<Guest*>(who), events[i].events);
      }
    }
    close_the_mute();
    if (accepts) accept_some();  // last: it may close guests that events name
  }
}

int GuardedListener::patience_ms() const {
  if (rests_) return kRestMs;
  return mute_ != 0 ? kLookMs : -1;
}

void GuardedListener::hear(Guest* guest, uint32_t events) {
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) return close(guest);
  silence_.heard(guest->place);
  if (std::exchange(guest->mute, false)) --mute_;
}

void GuardedListener::accept_some() {
  for (int i = 0; i < kAccepts; ++i) {
    Endpoint from;
    Fd connection = accept_tcp(listener_.get(), &from);
    if (connection.valid()) {
      admit(std::move(connection), with_port(from, 0));
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return;
    if (!is_shortage(errno)) continue;  // it is the trouble of who wanted to connect
    make_room(silence_.largest(), std::system_category().message(errno));
    return rest(true);
  }
}

void GuardedListener::admit(Fd connection, const Endpoint& host) {
  const Silence::List& neighbours = silence_.of(host);
  if (neighbours.size() >= limits_.from_address) {
    make_room(neighbours, std::to_string(neighbours.size()) + " connections from " + to_literal(host) +
                              ", the most of one address");
  } else if (guests_.size() >= limits_.in_all) {
    make_room(silence_.largest(), std::to_string(guests_.size()) + " connections, the most in all");
  }
  auto guest = std::make_unique<Guest>();
  guest->fd = Fd(::fcntl(connection.get(), F_DUPFD_CLOEXEC, 0));
  // Every arrival is told once; the server reads it.
  epoll_event event{EPOLLIN | EPOLLET, {guest.get()}};
  if (!guest->fd.valid() || ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, guest->fd.get(), &event) != 0) {
    make_room(silence_.largest(), std::system_category().message(errno));
    return reset_tcp(std::move(connection));
  }
  guest->place = silence_.add(guest.get(), host);
  ++mute_;
  Guest* const key = guest.get();
  guests_.emplace(key, std::move(guest));
  take_(std::move(connection));
}

void GuardedListener::make_room(const Silence::List& crowd, const std::string& why) {
  const Time now = monotonic_now();
  if (now >= quiet_until_) {
    SWITCHML_LOG(kWarning) << name_ << ": " << why << "; the ones that are silent longest make room";
    quiet_until_ = now + kQuiet;
  }
  if (!crowd.empty()) close(crowd.front());
}

void GuardedListener::close(Guest* guest) {
  if (guest->mute) --mute_;
  silence_.remove(guest->place);
  // Closing does not do that while the server has the connection too.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, guest->fd.get(), nullptr);
  ::shutdown(guest->fd.get(), SHUT_RDWR);  // the server hears of it, and closes its own descriptor
  guests_.erase(guest);
}

void GuardedListener::close_the_mute() {
  if (mute_ == 0) return;
  const Time end = monotonic_now() - patience_;
  std::vector<Guest*> over;
  for (const auto& [guest, owner] : guests_) {
    if (guest->mute && guest->since < end) over.push_back(guest);
  }
  for (Guest* const guest : over) close(guest);
}

void GuardedListener::rest(bool rests) {
  rests_ = rests;
  epoll_event event{rests ? 0U : EPOLLIN, {this}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), &event);
}

}  // namespace switchml
