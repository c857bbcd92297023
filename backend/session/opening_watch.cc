#include "session/opening_watch.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "session/host_addresses.h"
#include "socket/address.h"
#include "socket/close_on_fork.h"
#include "socket/descriptor_limit.h"
#include "socket/sockaddr.h"
#include "transport/tcp_socket.h"

namespace switchml {

namespace {

constexpr Duration kGreetingTime = seconds(1);  // An opening waits so long where rank 0 does not answer.
constexpr Duration kGlance = microseconds(100);
constexpr Duration kLookPause = milliseconds(500);
constexpr size_t kSpareDescriptors = 64;           // For whatever else the process opens meanwhile.
constexpr Duration kDeafTime = milliseconds(100);  // A rank that gives up does not ring.

// Where rank 0 listens, as the rank that says `own` reaches it; an error: it does not.
Result<Endpoint> address_of_rank_0(const Blob& hello, const Blob& own) {
  const auto listener = literal_address(hello.text("watch"), 0);
  if (!listener.ok() || !is_any(listener.value())) return listener;
  const HostLayout layout = HostLayout::of({hello.text("host"), own.text("host")});
  if (layout.hosts() == 1) return literal_address("127.0.0.1", port_of(listener.value()));
  const auto hosts = choose_host_addresses(layout, {hello, own});
  if (!hosts.ok()) return hosts.status();
  return with_port(hosts.value().front(), port_of(listener.value()));
}

// A Unix socket of the kernel's abstract names, which begin with a zero and belong to a network namespace, and its
// name; invalid: there is none.
Fd make_sign(std::string* name) {
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (!fd.valid() || ::bind(fd.get(), any, sizeof(sa_family_t)) != 0 || ::listen(fd.get(), 1) != 0) return Fd();
  if (::getsockname(fd.get(), any, &size) != 0 || size <= sizeof(sa_family_t) + 1) return Fd();
  name->assign(address.sun_path + 1, size - sizeof(sa_family_t) - 1);
  return fd;
}

bool is_over(const std::string& sign) {
  const Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (!fd.valid() || sign.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path + 1, sign.data(), sign.size());
  const auto size = static_cast<socklen_t>(sizeof(sa_family_t) + 1 + sign.size());
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 && errno == ECONNREFUSED;
}

// Each rank connects with this watch, and with the session's before this one ends. The usual soft limit is 1,024, for
// the sake of programs that call select(); the hard one is far higher. `newest`: a descriptor; those below are taken.
void allow_connections(int newest, const GroupInfo& group) {
  const size_t wanted = static_cast<size_t>(newest) + 2 * static_cast<size_t>(group.size) + kSpareDescriptors;
  const size_t allowed = allow_descriptors(wanted);
  if (allowed >= wanted) return;
  SWITCHML_LOG(kWarning) << group.name << ": rank 0 may have " << allowed << " descriptors, and a group of "
                         << group.size << " ranks takes up to " << wanted
                         << ": deaths may be noticed by timeouts only; raise its hard limit (ulimit -Hn)";
}

std::shared_ptr<const seal::StreamDoorOwner> make_door() {
  return std::make_shared<const seal::StreamDoorOwner>(random_seal_key(), random_bytes);
}

}  // namespace

WatchMeeting WatchMeeting::offer(const Result<Endpoint>& own_address, const std::string& group) {
  WatchMeeting meeting;
  auto listener = own_address.ok() ? PeerWatch::listen(own_address.value()) : Result<Fd>(own_address.status());
  if (!listener.ok()) {
    SWITCHML_LOG(kWarning) << group
                           << ": the death of a rank will be noticed by timeouts only: " << listener.status().message();
    return meeting;
  }
  meeting.owner = make_door();
  meeting.listener = std::move(listener.value());
  return meeting;
}

void WatchMeeting::write(Blob* blob) const {
  if (!listener.valid()) return;
  blob->set("watch", to_string(local_endpoint(listener.get())));
  blob->set("watch_key", to_text(owner->door()));
}

WatchMeeting WatchMeeting::read(const Blob& blob) {
  WatchMeeting meeting;
  const auto address = literal_address(blob.text("watch"), 0);
  const auto door = seal::parse_stream_door(blob.text("watch_key"));
  if (!address.ok() || !door.ok()) return meeting;
  meeting.address = address.value();
  meeting.door = door.value();
  return meeting;
}

uint64_t WatchMeeting::number() const {
  const seal::StreamDoor known = owner ? owner->door() : door;
  uint64_t number = 0;
  std::memcpy(&number, known.half.data(), sizeof number);
  return number;
}

OpeningWatch::OpeningWatch(const Config& config, const GroupInfo& group, Rendezvous& store)
    : config_(config), group_(group), store_(store) {
  options_.rank = group.rank;
  options_.size = group.size;
  options_.process = this_process();
  options_.patience = config.failure_timeout;
  options_.warn_unheard = false;  // the session's own watch does
  options_.tells_leaves = false;  // rank 0 alone looks for others
  options_.on_loss = [this](int, const std::string& text, bool) { lose(text); };
  options_.on_news = [this](int, const std::string&) {
    const std::lock_guard<std::mutex> lock(mutex_);
    rung_ = true;
    news_.notify_all();
  };
  options_.on_leave = [this](int rank) {
    const std::lock_guard<std::mutex> lock(mutex_);
    left_.insert(rank);
  };
}

OpeningWatch::~OpeningWatch() {
  if (sign_.valid()) close_forgotten(sign_.release());
}

void OpeningWatch::begin(Blob* hello) {
  if (group_.size == 1) return;
  std::string sign;
  sign_ = make_sign(&sign);
  if (sign_.valid()) close_on_fork(sign_.get());
  hello->set("sign", sign);
  hello->set("who", options_.process);
  own_ = *hello;
  next_look_ = monotonic_now() + kLookPause;
  if (group_.rank == 0) return listen(hello);
  meets_ = true;
  meet_rank_0();
}

Status OpeningWatch::lost() {
  if (meets_) meet_rank_0();
  const bool all = group_.rank == 0;
  const bool connected = watch_ && watch_->connected() == (all ? group_.size - 1 : 1);
  if (!connected && monotonic_now() >= next_look_) {
    for (int rank = all ? 1 : 0; rank < (all ? group_.size : 1); ++rank) look_for(rank);
    next_look_ = monotonic_now() + kLookPause;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  return loss_;
}

StoreExchange::Bell OpeningWatch::bell() {
  const auto ring = [this] {
    if (watch_) watch_->tell("");
  };
  return {ring, [this](Duration most, bool until_ring) { return rest(most, until_ring); }};
}

bool OpeningWatch::rest(Duration most, bool until_ring) {
  const bool hears = until_ring && watch_ && watch_->connected() == 1;
  std::unique_lock<std::mutex> lock(mutex_);
  news_.wait_for(lock, hears ? std::max(most, kDeafTime) : most, [this] { return rung_ || !loss_.ok(); });
  return std::exchange(rung_, false);
}

// Which hosts the others are on is not known yet. A group can do without.
void OpeningWatch::listen(Blob* hello) {
  const auto at = config_.interface.empty() ? any_endpoint(AF_INET) : announced_address(config_.interface);
  auto listener = at.ok() ? listen_tcp(at.value()) : Result<Fd>(at.status());
  if (!listener.ok()) return;
  allow_connections(listener->get(), group_);
  auto door = make_door();
  hello->set("watch", to_string(local_endpoint(listener->get())));
  hello->set("watch_key", to_text(door->door()));
  watch_ = std::make_unique<PeerWatch>(options_, std::move(listener.value()), std::move(door));
}

void OpeningWatch::meet_rank_0() {
  const auto text = store_.get(rank_key("hello", 0), monotonic_now());
  if (!text.ok()) return;
  meets_ = false;
  const auto hello = Blob::parse(text.value());
  if (!hello.ok()) return;
  const auto door = seal::parse_stream_door(hello->text("watch_key"));
  if (!door.ok()) return;
  const auto address = address_of_rank_0(hello.value(), own_);
  if (!address.ok()) return;
  watch_ = std::make_unique<PeerWatch>(options_, address.value(), door.value());
  const Time begin = monotonic_now();
  for (Time now = begin; watch_->connected() == 0 && !watch_->is_over() && now < begin + kGreetingTime;
       now = monotonic_now()) {
    std::this_thread::sleep_for(std::max<Duration>(kGlance, (now - begin) / 8));
  }
}

// Only a connection says something of other hosts: a firewall may refuse one in their name.
void OpeningWatch::look_for(int rank) {
  auto known = neighbours_.find(rank);
  if (known == neighbours_.end()) {
    const auto text = store_.get(rank_key("hello", rank), monotonic_now());
    if (!text.ok()) return;
    const auto hello = Blob::parse(text.value());
    const bool near = hello.ok() && hello->text("host") == own_.text("host");
    known = neighbours_.emplace(rank, near ? Neighbour{hello->text("sign"), hello->text("who")} : Neighbour{}).first;
  }
  const Neighbour& neighbour = known->second;
  if (neighbour.sign.empty() || !is_over(neighbour.sign) || has_left(rank)) return;
  const std::string text = text_of_death(rank, neighbour.process);
  if (watch_ && group_.rank == 0) watch_->give_up(text.substr(0, 255));
  lose(text);
}

bool OpeningWatch::has_left(int rank) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (left_.count(rank) > 0) return true;
  }
  return store_.get(rank_key("parted", rank), monotonic_now()).ok() ||
         store_.get(rank_key("open", 0), monotonic_now()).ok();
}

void OpeningWatch::lose(const std::string& text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (loss_.ok()) loss_ = Status(Code::kUnavailable, text);
  news_.notify_all();
}

}  // namespace switchml
