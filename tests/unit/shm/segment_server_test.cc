#include "shm/segment_server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "child.h"
#include "integers.h"

namespace switchml::shm {
namespace {

using testing::Child;
using ::testing::HasSubstr;
using testing::kLong;

constexpr size_t kBytes = 8192;
constexpr uint64_t kKey = 0x0123456789abcdef;

std::string new_name() {
  static int number = 0;
  return "switchml-test-" + std::to_string(::getpid()) + "-" + std::to_string(++number);
}
Time in(Duration duration) { return monotonic_now() + duration; }

/// A segment, and who hands it out.
struct Owner {
  Owner() : segment(Segment::create(kBytes)), segment_server(SegmentServer::start(segment.value(), name, kKey)) {}
  std::string name = new_name();
  Result<Segment> segment;
  Result<std::unique_ptr<SegmentServer>> segment_server;
};

/// An unconnected socket, and the address that belongs to a name.
struct Socket {
  explicit Socket(const std::string& name) : fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* where() const { return reinterpret_cast<const sockaddr*>(&address); }
  Fd fd;
  sockaddr_un address{};
  socklen_t size = 0;
};

/// A connection to a segment_server, by hand.
Fd connect_to(const std::string& name) {
  Socket socket(name);
  EXPECT_EQ(::connect(socket.fd.get(), socket.where(), socket.size), 0);
  return std::move(socket.fd);
}

TEST(SegmentServer, WhoKnowsTheKeyGetsTheMemory) {
  Owner owner;
  ASSERT_TRUE(owner.segment_server.ok()) << owner.segment_server.status().to_string();
  for (int i = 0; i < 3; ++i) {
    auto fetched = fetch_segment(owner.name, kKey, kBytes, in(kLong));
    ASSERT_TRUE(fetched.ok()) << fetched.status().to_string();
    EXPECT_EQ(fetched->size(), kBytes);
    owner.segment->data()[i] = static_cast<uint8_t>(40 + i);
    EXPECT_EQ(fetched->data()[i], 40 + i);
    EXPECT_NE(::fcntl(fetched->fd(), F_GETFD) & FD_CLOEXEC, 0) << "no other program inherits it";
  }
}

TEST(SegmentServer, AnotherKeyIsRefused) {
  Owner owner;
  const auto refused = fetch_segment(owner.name, kKey + 1, kBytes, in(kLong));
  EXPECT_EQ(refused.status().code(), Code::kUnavailable);
  EXPECT_THAT(refused.status().message(), HasSubstr("refuses"));
  EXPECT_TRUE(fetch_segment(owner.name, kKey, kBytes, in(kLong)).ok()) << "others are served";
}

TEST(SegmentServer, HalfAKeyIsRefused) {
  Owner owner;
  const Fd fd = connect_to(owner.name);
  ASSERT_EQ(::send(fd.get(), &kKey, 4, 0), 4);
  char byte = 0;
  EXPECT_LE(::recv(fd.get(), &byte, 1, 0), 0);
}

TEST(SegmentServer, WhereNobodyIsNothingIsHad) {
  const Time begin = monotonic_now();
  const auto nothing = fetch_segment(new_name(), kKey, kBytes, in(kLong));
  EXPECT_EQ(nothing.status().code(), Code::kUnavailable);
  EXPECT_LT(monotonic_now() - begin, kLong);
  std::string gone;
  {
    Owner owner;
    gone = owner.name;
  }
  EXPECT_EQ(fetch_segment(gone, kKey, kBytes, in(kLong)).status().code(), Code::kUnavailable);
}

TEST(SegmentServer, WhoSaysNothingDoesNotKeepOthersWaitingForLong) {
  Owner owner;
  const Time begin = monotonic_now();
  std::vector<Fd> silent;
  for (int i = 0; i < 3; ++i) silent.push_back(connect_to(owner.name));
  const auto fetched = fetch_segment(owner.name, kKey, kBytes, in(kLong));
  EXPECT_TRUE(fetched.ok()) << fetched.status().to_string();
  EXPECT_LT(monotonic_now() - begin, seconds(10));
}

TEST(SegmentServer, EndsThoughSomebodySaysNothing) {
  const Time begin = monotonic_now();
  Fd silent;
  {
    Owner owner;
    silent = connect_to(owner.name);
  }
  EXPECT_LT(monotonic_now() - begin, seconds(10));
  char byte = 0;
  EXPECT_LE(::recv(silent.get(), &byte, 1, 0), 0) << "the connection ends with it";
}

TEST(SegmentServer, WhoDoesNotAnswerIsNotWaitedForLongerThanAsked) {
  const std::string name = new_name();
  const Socket listener(name);
  ASSERT_EQ(::bind(listener.fd.get(), listener.where(), listener.size), 0);
  ASSERT_EQ(::listen(listener.fd.get(), 5), 0);
  for (const Duration patience : {Duration(milliseconds(60)), Duration(-seconds(1))}) {
    const Time begin = monotonic_now();
    const auto nothing = fetch_segment(name, kKey, kBytes, begin + patience);
    EXPECT_EQ(nothing.status().code(), Code::kTimeout) << nothing.status().to_string();
    EXPECT_GE(monotonic_now() - begin, patience - milliseconds(5));
    EXPECT_LT(monotonic_now() - begin, seconds(10));
  }
}

/// Signals that interrupt whatever this process waits in, every few milliseconds while it lives.
class Interruptions {
 public:
  Interruptions() {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    ::sigaction(SIGALRM, &action, &before_);
    const itimerval often{{0, 5000}, {0, 5000}};
    ::setitimer(ITIMER_REAL, &often, nullptr);
  }
  ~Interruptions() {
    const itimerval never{};
    ::setitimer(ITIMER_REAL, &never, nullptr);
    ::sigaction(SIGALRM, &before_, nullptr);
  }
  Interruptions(const Interruptions&) = delete;
  Interruptions& operator=(const Interruptions&) = delete;

 private:
  struct sigaction before_ {};
};

TEST(SegmentServer, SignalsOfTheProgramDisturbNobody) {
  const Interruptions interruptions;
  Owner owner;
  const Fd silent = connect_to(owner.name);  // so that the answer takes a while
  const auto fetched = fetch_segment(owner.name, kKey, kBytes, in(kLong));
  EXPECT_TRUE(fetched.ok()) << fetched.status().to_string();
}

TEST(SegmentServer, AnotherSizeThanExpectedIsAMismatch) {
  Owner owner;
  for (const size_t bytes : {kBytes / 2, kBytes * 2}) {
    const auto other = fetch_segment(owner.name, kKey, bytes, in(kLong));
    EXPECT_EQ(other.status().code(), Code::kMismatch);
    EXPECT_THAT(other.status().message(), HasSubstr(std::to_string(bytes) + " bytes"));
  }
}

TEST(SegmentServer, ANameThatIsNoneIsAnError) {
  auto segment = Segment::create(kBytes);
  for (const std::string& name : {std::string(), std::string(108, 'x')}) {
    const auto segment_server = SegmentServer::start(segment.value(), name, kKey);
    EXPECT_EQ(segment_server.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(segment_server.status().message(), HasSubstr("\"" + name + "\""));
    EXPECT_EQ(fetch_segment(name, kKey, kBytes, in(kLong)).status().code(), Code::kMismatch);
  }
  EXPECT_TRUE(SegmentServer::start(segment.value(), std::string(107, 'x'), kKey).ok());
}

TEST(SegmentServer, ANameIsTakenOnce) {
  Owner owner;
  const auto second = SegmentServer::start(owner.segment.value(), owner.name, kKey);
  EXPECT_EQ(second.status().code(), Code::kUnavailable);
  EXPECT_THAT(second.status().message(), HasSubstr("in use"));
}

TEST(SegmentServer, GivesTheMemoryThoughItsOwnerHasForgottenTheDescriptor) {
  Owner owner;
  owner.segment->forget_fd();
  EXPECT_EQ(owner.segment->fd(), -1);
  auto fetched = fetch_segment(owner.name, kKey, kBytes, in(kLong));
  ASSERT_TRUE(fetched.ok()) << fetched.status().to_string();
  fetched->data()[0] = 9;
  EXPECT_EQ(owner.segment->data()[0], 9);
}

// Nobody guesses the key, but who runs as another user is not even asked for it.
TEST(SegmentServer, AnotherUserIsRefused) {
  const std::string name = new_name();
  auto segment = Segment::create(kBytes);
  constexpr int kNotAllowed = 100;
  Child child([&] {
    if (::setresuid(65534, 65534, 65534) != 0) return kNotAllowed;
    const Time end = in(kLong);
    while (monotonic_now() < end) {
      const auto fetched = fetch_segment(name, kKey, kBytes, end);
      if (fetched.ok()) return 101;
      if (fetched.status().message().find("another user") != std::string::npos) return 0;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return 102;
  });
  const auto segment_server = SegmentServer::start(segment.value(), name, kKey);
  ASSERT_TRUE(segment_server.ok());
  const int exit_code = child.exit_code();
  if (exit_code == kNotAllowed) GTEST_SKIP() << "this process may not become another user";
  EXPECT_EQ(exit_code, 0);
}

}  // namespace
}  // namespace switchml::shm
