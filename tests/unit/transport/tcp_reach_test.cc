#include "transport/tcp_reach.h"

#include "transport/tcp_harness.h"

namespace switchml {
namespace {

Time soon() { return monotonic_now() + seconds(60); }

/// Where nobody listens.
Endpoint deserted_port() { return open_tcp(listening())->local(); }

/// Does not answer: its backlog is full, and nobody accepts.
class Silent {
 public:
  Silent() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const Endpoint at = address("127.0.0.1:0");
    EXPECT_EQ(::bind(fd_.get(), as_sockaddr(at), at.size), 0);
    EXPECT_EQ(::listen(fd_.get(), 0), 0);
    const Endpoint here = local_endpoint(fd_.get());
    for (int i = 0; i < 4; ++i) {
      waiting_.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      [[maybe_unused]] const int begun = ::connect(waiting_.back().get(), as_sockaddr(here), here.size);
    }
  }
  Endpoint at() const { return local_endpoint(fd_.get()); }

 private:
  Fd fd_;
  std::vector<Fd> waiting_;
};

TEST(TcpReach, SaysNothingWhereAllAnswer) {
  auto one = open_tcp(listening()), other = open_tcp(listening());
  EXPECT_EQ(why_no_tcp({one->local(), other->local()}, soon()), "");
  EXPECT_EQ(why_no_tcp({with_carrier(one->local(), Carrier::kPackets)}, soon()), "")
      << "whatever carried frames before";
  EXPECT_EQ(why_no_tcp({}, soon()), "");
}

TEST(TcpReach, NamesTheOneThatRefuses) {
  auto one = open_tcp(listening());
  const Endpoint nobody = deserted_port();
  EXPECT_EQ(why_no_tcp({one->local(), nobody}, soon()), to_string(nobody) + ": Connection refused");
}

TEST(TcpReach, NamesTheOneThatIsSilent) {
  auto one = open_tcp(listening());
  const Silent silent;
  const Time begin = monotonic_now();
  const std::string why = why_no_tcp({one->local(), silent.at()}, begin + milliseconds(200));
  EXPECT_EQ(why, to_string(with_carrier(silent.at(), Carrier::kTcp)) + ": Connection timed out");
  EXPECT_GE(monotonic_now(), begin + milliseconds(200));
}

TEST(TcpReach, LeavesNoConnectionBehind) {
  RawTcpListener listener(address("127.0.0.1:0"));
  EXPECT_EQ(why_no_tcp({listener.at()}, soon()), "");
  RawTcp seen = listener.accept();
  EXPECT_TRUE(seen.receive(1).empty());
  EXPECT_TRUE(seen.is_over());
}

}  // namespace
}  // namespace switchml
