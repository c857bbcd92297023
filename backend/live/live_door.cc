#include "live/live_door.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <list>
#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "base/secret.h"
#include "base/thread.h"
#include "live/live_page.h"
#include "seal/derive.h"
#include "socket/close_on_fork.h"

namespace switchml {
namespace {

constexpr size_t kMostAskers = 16;             // One more takes the place of the one that is there for longest.
constexpr Duration kAskTime = seconds(2);      // For a question, and for its answer to be taken.
constexpr Duration kRest = milliseconds(100);  // Where there is no descriptor.
constexpr size_t kQuestion = 16;

struct Greeting {
  char magic[8];
  uint64_t nonce;
};
struct Answer {
  uint64_t proof;
  int64_t clock;  // Nanoseconds since 1970.
};
struct PageHeader {
  uint32_t bytes;
  char state[4];
};
static_assert(sizeof(Greeting) == 16 && sizeof(Answer) == 16 && sizeof(PageHeader) == 8, "as on the wire");

uint64_t proof(const SealKey& key, const char* word, uint64_t door, uint64_t asker) {
  char said[8 + 16] = {};
  std::snprintf(said, 8, "%s", word);
  std::memcpy(said + 8, &door, sizeof door);
  std::memcpy(said + 16, &asker, sizeof asker);
  const seal::Hash hash =
      seal::hmac_sha256(seal::view(key.bytes), {{reinterpret_cast<const uint8_t*>(said), sizeof said}});
  uint64_t begin = 0;
  std::memcpy(&begin, hash.data(), sizeof begin);
  return begin;
}

void append(std::vector<char>* to, const void* from, size_t bytes) {
  to->insert(to->end(), static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
}

// The state follows the name, which may have brackets of its own.
char state_of(int64_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[1024];
  const ssize_t got = file.valid() ? ::read(file.get(), text, sizeof text - 1) : -1;
  if (got <= 0) return 'X';
  text[got] = 0;
  const char* const behind = std::strrchr(text, ')');
  return behind != nullptr && behind[1] == ' ' ? behind[2] : '?';
}

bool copy_page(int file, LivePageCopy* copy) {
  live::Head head;
  if (::pread(file, &head, sizeof head, 0) != sizeof head) return false;
  if (std::memcmp(head.magic, live::kMagic, sizeof head.magic) != 0) return false;
  const size_t slots = std::min<size_t>(head.group_slots, live::kGroups);
  copy->bytes.resize(live::kGroupsAt + slots * live::kGroupBytes);
  if (::pread(file, copy->bytes.data(), copy->bytes.size(), 0) != static_cast<ssize_t>(copy->bytes.size()))
    return false;
  if (::flock(file, LOCK_SH | LOCK_NB) == 0) {
    copy->state = 'X';
  } else if (head.pid_namespace == live::pid_namespace()) {
    copy->state = state_of(head.pid);
  }
  return true;
}

}  // namespace

std::vector<LivePageCopy> copy_pages(const std::string& folder) {
  std::vector<LivePageCopy> copies;
  const auto all = [](const char* /*name*/) { return true; };
  LivePage::for_each(folder, all, [&](int /*folder*/, const char* /*name*/, int file) {
    LivePageCopy copy;
    if (copies.size() < kMostPages && copy_page(file, &copy)) copies.push_back(std::move(copy));
  });
  return copies;
}

class LiveDoor::Server {
 public:
  Server(Fd listener, const SealKey& key, std::string folder, int wake)
      : listener_(std::move(listener)), key_(key), folder_(std::move(folder)), wake_(wake) {
    close_on_fork(listener_.get());
  }
  ~Server() {
    for (Asker& asker : askers_) close_forgotten(asker.fd.release());
    close_forgotten(listener_.release());
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void run() {
    for (;;) {
      std::vector<pollfd> polled = {{wake_, POLLIN, 0},
                                    {monotonic_now() >= rests_until_ ? listener_.get() : -1, POLLIN, 0}};
      for (const Asker& asker : askers_) {
        polled.push_back({asker.fd.get(), static_cast<short>(asker.unsent.empty() ? POLLIN : POLLOUT), 0});
      }
      if (::poll(polled.data(), polled.size(), patience()) < 0 && errno != EINTR) return;
      if (polled[0].revents != 0) return;
      size_t i = 2;
      for (auto asker = askers_.begin(); asker != askers_.end();) {
        const bool goes_on = (polled[i++].revents == 0 || serve(*asker)) && monotonic_now() < asker->until;
        asker = goes_on ? std::next(asker) : drop(asker);
      }
      if (polled[1].revents != 0) accept();
    }
  }

 private:
  struct Asker {
    Fd fd;
    Time until;
    uint64_t nonce = random_bits();
    std::string said{};
    std::vector<char> unsent{};  // The answer.
    size_t sent = 0;
  };

  /// In milliseconds; for ever where there is no question.
  int patience() const {
    Time next = rests_until_ > monotonic_now() ? rests_until_ : kNever;
    for (const Asker& asker : askers_) next = std::min(next, asker.until);
    if (next == kNever) return -1;
    const auto left = std::chrono::duration_cast<milliseconds>(next - monotonic_now()).count();
    return static_cast<int>(std::max<decltype(left)>(0, left + 1));
  }

  std::list<Asker>::iterator drop(std::list<Asker>::iterator asker) {
    close_forgotten(asker->fd.release());
    return askers_.erase(asker);
  }

  void accept() {
    Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
      if (is_shortage(errno)) rests_until_ = monotonic_now() + kRest;
      return;
    }
    close_on_fork(fd.get());
    if (askers_.size() >= kMostAskers) drop(askers_.begin());
    askers_.push_back({std::move(fd), monotonic_now() + kAskTime});
    Asker& asker = askers_.back();
    Greeting greeting{};
    std::memcpy(greeting.magic, kDoorMagic, sizeof greeting.magic);
    greeting.nonce = asker.nonce;
    // A new connection has room for that.
    if (::send(asker.fd.get(), &greeting, sizeof greeting, MSG_NOSIGNAL) != sizeof greeting)
      drop(std::prev(askers_.end()));
  }

  /// False: the connection is over.
  bool serve(Asker& asker) {
    if (asker.unsent.empty()) return hear(asker);
    const ssize_t taken = ::send(asker.fd.get(), asker.unsent.data() + asker.sent, asker.unsent.size() - asker.sent,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
    if (taken < 0) return errno == EAGAIN || errno == EINTR;
    asker.sent += static_cast<size_t>(taken);
    return asker.sent < asker.unsent.size();
  }

  bool hear(Asker& asker) {
    char bytes[kQuestion];
    const ssize_t got = ::recv(asker.fd.get(), bytes, kQuestion - asker.said.size(), MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    asker.said.append(bytes, static_cast<size_t>(got));
    if (asker.said.size() < kQuestion) return true;
    uint64_t nonce = 0;
    std::memcpy(&nonce, asker.said.data(), sizeof nonce);
    const uint64_t expected = proof(key_, "ask", asker.nonce, nonce);
    if (!same_secret({reinterpret_cast<const char*>(&expected), sizeof expected}, asker.said.substr(8))) return false;
    answer(asker, nonce);
    return !asker.unsent.empty() && serve(asker);
  }

  // The clock goes ahead: the asker compares it with its own, and to copy pages takes a while.
  void answer(Asker& asker, uint64_t nonce) const {
    const Answer first{proof(key_, "say", asker.nonce, nonce), wall_clock()};
    if (::send(asker.fd.get(), &first, sizeof first, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof first) return;
    const std::vector<LivePageCopy> pages = copy_pages(folder_);
    const uint64_t count = pages.size();
    append(&asker.unsent, &count, sizeof count);
    for (const LivePageCopy& page : pages) {
      const PageHeader header{static_cast<uint32_t>(page.bytes.size()), {page.state}};
      append(&asker.unsent, &header, sizeof header);
      append(&asker.unsent, page.bytes.data(), page.bytes.size());
    }
  }

  Fd listener_;
  const SealKey key_;
  const std::string folder_;
  const int wake_;
  Time rests_until_{};
  std::list<Asker> askers_;  // The oldest first.
};

LiveDoor::LiveDoor(Fd listener, const SealKey& key, const std::string& folder)
    : owner_(::getpid()), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_.valid()) {
    throw StatusError({Code::kUnavailable, std::string("no descriptor for the live view: ") + std::strerror(errno)});
  }
  const auto server = std::make_shared<Server>(std::move(listener), key, folder, wake_.get());
  thread_ = make_thread("the live view", [server] {
    pthread_setname_np(pthread_self(), "switchml-live");
    server->run();
  });
}

LiveDoor::~LiveDoor() {
  if (::getpid() != owner_) {
    thread_.detach();  // it exists in the parent only
    return;
  }
  const uint64_t one = 1;
  while (::write(wake_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  thread_.join();
}

}  // namespace switchml
