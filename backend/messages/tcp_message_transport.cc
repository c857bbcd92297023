#include "messages/tcp_message_transport.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "messages/tcp_message_wire.h"
#include "socket/address.h"
#include "socket/close_on_fork.h"
#include "transport/tcp_socket.h"

namespace switchml {

using namespace tcp_message;

namespace {

constexpr int kEvents = 64;
constexpr size_t kReadAtOnce = 1 << 20;     // bytes of one rank, before others have their turn
constexpr uint64_t kTellTaken = 16 * 1024;  // bytes
constexpr Duration kLinger = seconds(2);
constexpr Duration kFailedLinger = milliseconds(200);

bool has_tail(const MessageRecord& record) { return record.has_bytes_behind() || record.kind == kFarewell; }

Fd checked(int fd) {
  if (fd >= 0) return Fd(fd);
  throw StatusError({Code::kUnavailable, "no descriptor for messages between ranks: " + error_text(errno)});
}

seal::ByteView bytes_of(const void* data, size_t size) { return {static_cast<const uint8_t*>(data), size}; }

/// What it still has to send is lost. What the other end said before may be unread.
bool is_reset(int fd) {
  pollfd polled{fd, 0, 0};
  return ::poll(&polled, 1, 0) > 0 && (polled.revents & (POLLHUP | POLLERR)) != 0;
}

MessageRecord farewell_of(MessageTransport::State how, const std::string& reason) {
  return {kFarewell, 0, static_cast<uint64_t>(how), reason.size(), 0};
}

}  // namespace

TcpMessageTransport::TcpMessageTransport(TcpMessageOptions options)
    : options_(std::move(options)),
      epoll_(checked(::epoll_create1(EPOLL_CLOEXEC))),
      bells_{checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))},
      peers_(static_cast<size_t>(options_.ranks)) {
  close_on_fork(options_.listener.get());
  watch(options_.listener.get(), EPOLLIN, kListening);
}

TcpMessageTransport::~TcpMessageTransport() {
  for (Peer& each : peers_) {
    for (ByteStream* stream : {&each.out.stream, &each.in.stream}) {
      if (!stream->valid()) continue;
      keep_on_fork(stream->fd());
      end_tcp(stream->release());
    }
  }
  for (Stranger& stranger : strangers_) forget(&stranger.stream);
  keep_on_fork(options_.listener.get());
}

// A rank that hears of this one's leave by others must find all that it has sent.
void TcpMessageTransport::linger() {
  const Time end = monotonic_now() + (gone_ == State::kLeft ? kLinger : kFailedLinger);
  const auto owes = [this](int to) {
    Outgoing& out = peer(to).out;
    if (out.stream.valid() && unsent_[static_cast<size_t>(to)]) flush(to);
    int left = 0;
    if (!out.stream.valid() || is_reset(out.stream.fd())) return false;
    return unsent_[static_cast<size_t>(to)] || (::ioctl(out.stream.fd(), SIOCOUTQ, &left) == 0 && left > 0);
  };
  for (int to = 0; to < ranks();) {
    if (!owes(to)) {
      ++to;
    } else if (monotonic_now() < end) {
      std::this_thread::sleep_for(microseconds(200));
    } else {
      return;
    }
  }
}

void TcpMessageTransport::watch(int fd, uint32_t events, uint64_t what, bool known) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = what;
  ::epoll_ctl(epoll_.get(), known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
}

void TcpMessageTransport::forget(ByteStream* stream) {
  if (!stream->valid()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, stream->fd(), nullptr);
  close_forgotten(stream->release().release());
}

// ---- signals ----

RankSet TcpMessageTransport::take_signals() {
  notified_ = false;
  epoll_event events[kEvents];
  const int count = ::epoll_wait(epoll_.get(), events, kEvents, 0);
  bool accepts = false;
  for (int i = 0; i < count; ++i) {
    const uint64_t what = events[i].data.u64;
    const auto number = static_cast<int>(what & UINT32_MAX);
    switch (what - static_cast<uint64_t>(number)) {
      case kListening: accepts = true; break;
      case kOut: heard(number, events[i].events); break;
      case kIn: signal_here(number); break;
      default:
        const auto stranger = std::find_if(strangers_.begin(), strangers_.end(),
                                           [number](const Stranger& each) { return each.stream.fd() == number; });
        if (stranger != strangers_.end() && greet(*stranger)) strangers_.erase(stranger);
    }
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (int rank = 0; left_.any() && rank < ranks(); ++rank) {
      if (left_[static_cast<size_t>(rank)] && peer(rank).farewell == State::kHere) peer(rank).farewell = State::kLeft;
    }
    leaving_ |= std::exchange(left_, {});
  }
  if (gone_ == State::kHere && (accepts || leaving_.any())) accept_some();
  if (leaving_.any() || !strangers_.empty() || due_.load() != kNever) settle_departures(monotonic_now());
  return std::exchange(signalled_, {});
}

bool TcpMessageTransport::has_work() const {
  if (notified_) return true;
  if (const Time due = due_; due != kNever && monotonic_now() >= due) return true;
  pollfd polled{epoll_.get(), POLLIN, 0};
  return ::poll(&polled, 1, 0) > 0;
}

Time TcpMessageTransport::next_wakeup() const { return due_; }

void TcpMessageTransport::notify() {
  notified_ = true;
  wake();
}

void TcpMessageTransport::note_left(int rank) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    left_.set(static_cast<size_t>(rank));
  }
  notify();
}

// ---- sleep ----

void TcpMessageTransport::hand_to_thread() {
  sleeper_ = Sleeper::kThread;
  if (!thread_sees_) ring_for(Sleeper::kThread);
}

void TcpMessageTransport::wake() {
  const Sleeper sleeper = sleeper_.exchange(Sleeper::kNobody);
  if (sleeper != Sleeper::kNobody) ring_for(sleeper);
}

void TcpMessageTransport::ring_for(Sleeper sleeper) {
  const uint64_t one = 1;
  while (::write(bells_[static_cast<size_t>(sleeper) - 1].get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

// Connections wake the sleeper that has the turn.
void TcpMessageTransport::wait_for_bell(Sleeper sleeper, uint32_t /*heard*/, Duration timeout) {
  const int bell = bells_[static_cast<size_t>(sleeper) - 1].get();
  const bool sees = sleeper_ == sleeper;
  if (sleeper == Sleeper::kThread) thread_sees_ = sees;
  pollfd polled[] = {{bell, POLLIN, 0}, {sees ? epoll_.get() : -1, POLLIN, 0}};
  const auto left = std::clamp<Duration>(timeout, Duration(0), std::chrono::hours(1)).count();
  const timespec at_most{static_cast<time_t>(left / 1'000'000'000), static_cast<long>(left % 1'000'000'000)};
  ::ppoll(polled, 2, &at_most, nullptr);
  if (sleeper == Sleeper::kThread) thread_sees_ = false;
  uint64_t rung = 0;
  if (polled[0].revents != 0) [[maybe_unused]]
    const ssize_t heard = ::read(bell, &rung, sizeof rung);
}

// ---- what comes ----

Status TcpMessageTransport::look(int source) {
  peer(source).in.budget = kReadAtOnce;
  return {};
}

const MessageRecord* TcpMessageTransport::next(int source, const uint8_t** behind) {
  Incoming& in = peer(source).in;
  for (;;) {
    if (!is_whole(source)) {
      if (read_more(source)) continue;
      return nullptr;
    }
    *behind = in.room.get() + in.begin + sizeof record_;
    if (record_.kind == kTaken) {
      peer(source).taken_there = record_.id;
      pop(source);
    } else if (record_.kind == kFarewell) {
      hear_farewell(source, record_, reinterpret_cast<const char*>(*behind));
      forget(&in.stream);
      in.over = true;
      in.begin = in.end;
    } else {
      if (record_.kind != MessageRecord::kPiece) record_.ticket = ++tickets_;
      return &record_;
    }
  }
}

/// Whether the next record has come, which is record_ then.
bool TcpMessageTransport::is_whole(int source) {
  Incoming& in = peer(source).in;
  if (in.end - in.begin < sizeof record_) return false;
  std::memcpy(&record_, in.room.get() + in.begin, sizeof record_);
  if (has_tail(record_) && record_.bytes > kMostBehind) {
    in.begin = in.end;
    forget(&in.stream);
    in.over = true;
    broke(source, "it does not speak as a rank does");
    return false;
  }
  in.size = sizeof record_ + (has_tail(record_) ? static_cast<size_t>(record_.bytes) : 0);
  return in.end - in.begin >= in.size;
}

void TcpMessageTransport::pop(int source) {
  Incoming& in = peer(source).in;
  in.begin += in.size;
}

bool TcpMessageTransport::read_more(int source) {
  constexpr size_t kRoom = 2 * (sizeof(MessageRecord) + kMostBehind);
  static_assert(2 * seal::StreamSeal::kMost <= kRoom);
  Incoming& in = peer(source).in;
  if (!in.stream.valid() || in.budget == 0) return false;
  if (in.room == nullptr) in.room.reset(new uint8_t[kRoom]);
  if (in.begin == in.end) {
    in.begin = in.end = 0;
  } else if (kRoom - in.begin < sizeof(MessageRecord) + kMostBehind || kRoom - in.end < in.stream.least_room()) {
    std::memmove(in.room.get(), in.room.get() + in.begin, in.end - in.begin);
    in.end -= std::exchange(in.begin, 0);
  }
  const ssize_t got = in.stream.receive(in.room.get() + in.end, kRoom - in.end);
  if (got > 0) {
    in.end += static_cast<size_t>(got);
    in.budget -= std::min(in.budget, static_cast<size_t>(got));
    return true;
  }
  const int error = got < 0 ? errno : 0;
  if (got < 0 && is_for_now(error)) return false;
  forget(&in.stream);
  in.over = true;
  broke(source, error == 0 ? "its connection has ended" : "its connection broke: " + error_text(error));
  return false;
}

void TcpMessageTransport::take(int source, uint64_t charge) {
  Peer& from = peer(source);
  from.taken_here += charge;
  if (from.taken_here - from.told < kTellTaken || from.out.over || gone_ != State::kHere) return;
  if (!from.out.stream.valid() && !open(source)) return;
  from.told = from.taken_here;
  append(source, {kTaken, 0, from.told, 0, 0}, nullptr, 0);
}

// ---- what goes ----

// The other end of a connection says when its rank leaves.
void TcpMessageTransport::expect(int source) {
  const Outgoing& out = peer(source).out;
  if (!out.stream.valid() && !out.over && gone_ == State::kHere) open(source);
}

bool TcpMessageTransport::open(int to) {
  Outgoing& out = peer(to).out;
  const auto door = options_.find_door(to);
  int error = 0;
  Endpoint source;
  Fd fd;
  MessageGreeting greeting;
  greeting.rank = static_cast<uint32_t>(rank());
  if (door.ok()) greeting.key = door->key;
  if (door.ok()) fd = connect_tcp({}, door->address, &source, &error);
  if (!fd.valid() && door.ok() && is_shortage(error)) {
    short_.set(static_cast<size_t>(to));
    rest(monotonic_now());
    return false;
  }
  if (fd.valid()) {
    out.stream = ByteStream(std::move(fd), door->sealed, bytes_of(&greeting, sizeof greeting));
    error = ByteStream::kForged;
  }
  if (!out.stream.valid()) {
    out.over = true;
    broke(to, door.ok() ? "no connection to " + to_string(door->address) + ": " + error_text(error)
                        : door.status().message());
    return false;
  }
  close_on_fork(out.stream.fd());
  unsent_.set(static_cast<size_t>(to));
  watch(out.stream.fd(), EPOLLIN | EPOLLOUT, kOut + static_cast<uint64_t>(to));
  return true;
}

Result<bool> TcpMessageTransport::put(int to, const MessageRecord& record, const void* data, size_t behind) {
  constexpr size_t kMostUnsent = 2 * kMostBehind;
  Outgoing& out = peer(to).out;
  if (out.over || gone_ != State::kHere || (!out.stream.valid() && !open(to))) return false;
  const size_t unsent = out.unsent.size() - out.sent;
  if (unsent > 0 && unsent + sizeof record + behind > kMostUnsent) {
    out.refused = true;
    return false;
  }
  append(to, record, data, behind);
  return true;
}

void TcpMessageTransport::append(int to, const MessageRecord& record, const void* data, size_t behind) {
  Outgoing& out = peer(to).out;
  size_t sent = 0;
  if (out.unsent.empty() && !out.stream.owes()) {
    const ssize_t taken = out.stream.send(bytes_of(&record, sizeof record), bytes_of(data, behind));
    if (taken < 0 && !is_for_now(errno)) return cannot_send(to, errno);
    sent = static_cast<size_t>(std::max<ssize_t>(taken, 0));
    if (sent == sizeof record + behind && !out.stream.owes()) return;
    unsent_.set(static_cast<size_t>(to));
    watch(out.stream.fd(), EPOLLIN | EPOLLOUT, kOut + static_cast<uint64_t>(to), true);
  } else {
    out.unsent.erase(out.unsent.begin(), out.unsent.begin() + static_cast<ptrdiff_t>(std::exchange(out.sent, 0)));
  }
  const auto add = [&](const void* from, size_t bytes) {
    const size_t skipped = std::min(sent, bytes);
    const auto* begin = static_cast<const uint8_t*>(from);
    out.unsent.insert(out.unsent.end(), begin + skipped, begin + bytes);
    sent -= skipped;
  };
  add(&record, sizeof record);
  if (behind > 0) add(data, behind);
}

void TcpMessageTransport::flush(int to) {
  Outgoing& out = peer(to).out;
  while (out.sent < out.unsent.size() || out.stream.owes()) {
    const ssize_t taken = out.stream.send(bytes_of(out.unsent.data() + out.sent, out.unsent.size() - out.sent));
    if (taken < 0 && is_for_now(errno)) return;
    if (taken < 0) return cannot_send(to, errno);
    out.sent += static_cast<size_t>(taken);
  }
  out.unsent.clear();
  out.sent = 0;
  unsent_.reset(static_cast<size_t>(to));
  watch(out.stream.fd(), EPOLLIN, kOut + static_cast<uint64_t>(to), true);
  if (std::exchange(out.refused, false)) signal_here(to);
}

/// What epoll says of the connection to a rank.
void TcpMessageTransport::heard(int to, uint32_t events) {
  Outgoing& out = peer(to).out;
  if (!out.stream.valid()) return;
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
    char bytes[sizeof(MessageRecord) + kMaxReason];
    const ssize_t got = out.stream.receive(bytes, sizeof bytes);
    const int error = got < 0 ? errno : 0;
    if (got > 0) out.farewell.append(bytes, static_cast<size_t>(got));
    MessageRecord last;
    if (out.farewell.size() >= sizeof last) std::memcpy(&last, out.farewell.data(), sizeof last);
    if (out.farewell.size() >= sizeof last && (last.kind != kFarewell || last.bytes > kMaxReason)) {
      return lose(to, "it does not speak as a rank does");
    }
    if (last.kind == kFarewell && out.farewell.size() >= sizeof last + last.bytes) {
      hear_farewell(to, last, out.farewell.data() + sizeof last);
    }
    if (got == 0 || (got < 0 && !is_for_now(error))) {
      const std::string where = out.connected ? "its connection " : "no connection to it: ";
      return lose(to, where + (error != 0 ? (out.connected ? "broke: " : "") + error_text(error) : "has ended"));
    }
  }
  if ((events & EPOLLOUT) == 0) return;
  out.connected = true;
  flush(to);
}

// ---- departure ----

void TcpMessageTransport::go(State how, const std::string& reason) {
  if (gone_ != State::kHere) return;
  gone_ = how;
  const std::string text = reason.substr(0, kMaxReason);
  const MessageRecord last = farewell_of(how, text);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, options_.listener.get(), nullptr);
  for (int other = 0; other < ranks(); ++other) {
    Peer& each = peer(other);
    if (each.out.stream.valid()) append(other, last, text.data(), text.size());
    if (!each.in.stream.valid()) continue;
    each.in.stream.send(bytes_of(&last, sizeof last), bytes_of(text.data(), text.size()));
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, each.in.stream.fd(), nullptr);  // It is not read any more.
  }
}

void TcpMessageTransport::hear_farewell(int rank, const MessageRecord& last, const char* reason) {
  Peer& leaver = peer(rank);
  leaver.farewell = last.id == static_cast<uint64_t>(State::kLeft) ? State::kLeft : State::kGaveUp;
  leaver.reason.assign(reason, static_cast<size_t>(last.bytes));
  leaving_.set(static_cast<size_t>(rank));
}

// A farewell may have come first.
void TcpMessageTransport::cannot_send(int to, int error) {
  heard(to, EPOLLIN);
  if (peer(to).out.stream.valid()) lose(to, "its connection broke: " + error_text(error));
}

void TcpMessageTransport::lose(int to, const std::string& why) {
  Outgoing& out = peer(to).out;
  forget(&out.stream);
  out.over = true;
  out.unsent.clear();
  unsent_.reset(static_cast<size_t>(to));
  broke(to, why);
}

/// Nothing more comes from it, or goes there, and no farewell has said why.
void TcpMessageTransport::broke(int rank, const std::string& why) {
  Peer& gone = peer(rank);
  leaving_.set(static_cast<size_t>(rank));
  if (gone.farewell == State::kHere && gone.broken_at == kNever) {
    gone.broken_at = monotonic_now();
    gone.reason = why;
  }
  notify();  // A thread that sleeps does not know yet when it has to look.
}

void TcpMessageTransport::depart(int rank, State how) {
  Peer& gone = peer(rank);
  gone.state = how;
  forget(&gone.out.stream);
  forget(&gone.in.stream);
  gone.out.over = gone.in.over = true;
  gone.out.unsent.clear();
  unsent_.reset(static_cast<size_t>(rank));
  leaving_.reset(static_cast<size_t>(rank));
  signal_here(rank);
}

// What a rank wrote before it left may still be in the kernel, even with the connection that brings it.
void TcpMessageTransport::settle_departures(Time now) {
  drop_strangers(now);
  if (now >= rests_until_) end_rest();
  Time due = rests_until_;
  if (!strangers_.empty()) due = std::min(due, strangers_.front().since + kGreetingTime);
  for (int rank = 0; leaving_.any() && rank < ranks(); ++rank) {
    if (!leaving_[static_cast<size_t>(rank)]) continue;
    Peer& leaver = peer(rank);
    if (leaver.leaving_since == kNever) leaver.leaving_since = now;
    // A connection that brings its messages is among the strangers that had come by then.
    const bool knows_strangers = strangers_.empty() || strangers_.front().since > leaver.leaving_since;
    const bool heard_all = !leaver.in.stream.valid() && knows_strangers && has_accepted_all_;
    const bool is_late = leaver.broken_at != kNever && now >= leaver.broken_at + options_.grace;
    if (leaver.state != State::kHere) {
      leaving_.reset(static_cast<size_t>(rank));
    } else if ((leaver.farewell != State::kHere && heard_all) || is_late) {
      depart(rank, leaver.farewell != State::kHere ? leaver.farewell : State::kLost);
    } else if (leaver.broken_at != kNever) {
      due = std::min(due, leaver.broken_at + options_.grace);
    }
  }
  due_ = due;
}

}  // namespace switchml
