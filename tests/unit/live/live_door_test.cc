#include "live/live_door.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/random.h"
#include "live/live_page.h"
#include "seal/derive.h"

namespace switchml {
namespace {

constexpr SealKey kKey{{11, 22}};

class LiveDoorTest : public testing::Test {
 protected:
  LiveDoorTest() {
    char name[] = "/dev/shm/switchml-test-XXXXXX";
    folder_ = ::mkdtemp(name);
    group_ = LivePage::add_group({folder_, {"all_reduce"}}, {"g", 1, 2, 1});
    Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address_;
    EXPECT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address_), size), 0);
    EXPECT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address_), &size), 0);
    EXPECT_EQ(::listen(listener.get(), 128), 0);
    door_ = std::make_unique<LiveDoor>(std::move(listener), kKey, folder_);
  }
  ~LiveDoorTest() override {
    door_.reset();
    group_.reset();
    ::rmdir(folder_.c_str());
  }

  Fd connect() const {
    Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address_), sizeof address_), 0);
    return fd;
  }
  /// All that comes until the door closes, or so many bytes.
  static std::string read(const Fd& fd, size_t most = SIZE_MAX) {
    std::string all;
    char bytes[4096];
    while (all.size() < most) {
      const ssize_t got = ::recv(fd.get(), bytes, std::min(sizeof bytes, most - all.size()), 0);
      if (got <= 0) break;
      all.append(bytes, static_cast<size_t>(got));
    }
    return all;
  }
  static std::string proof(const SealKey& key, const char* word, const std::string& nonces) {
    char said[24] = {};
    std::memcpy(said, word, std::strlen(word));
    std::memcpy(said + 8, nonces.data(), 16);
    const seal::Hash hash =
        seal::hmac_sha256(seal::view(key.bytes), {{reinterpret_cast<const uint8_t*>(said), sizeof said}});
    return {reinterpret_cast<const char*>(hash.data()), 8};
  }
  /// What a question by this key brings; `nonces`: of both.
  static std::string ask(const Fd& fd, const SealKey& key, std::string* nonces) {
    const std::string greeting = read(fd, 16);
    EXPECT_EQ(greeting.substr(0, 8), std::string(kDoorMagic, 8));
    *nonces = greeting.substr(8) + "12345678";
    const std::string question = "12345678" + proof(key, "ask", *nonces);
    EXPECT_EQ(::send(fd.get(), question.data(), question.size(), 0), 16);
    return read(fd);
  }
  void expect_an_answer() const {
    const Fd fd = connect();
    std::string nonces;
    const std::string answer = ask(fd, kKey, &nonces);
    ASSERT_GT(answer.size(), 32U);
    EXPECT_EQ(answer.substr(0, 8), proof(kKey, "say", nonces));
    EXPECT_EQ(*reinterpret_cast<const uint64_t*>(answer.data() + 16), 1U);
    const auto length = *reinterpret_cast<const uint32_t*>(answer.data() + 24);
    EXPECT_EQ(answer.size(), 32 + length);
    EXPECT_EQ(answer.substr(32, 8), std::string(live::kMagic, 8));
  }

  std::string folder_;
  std::shared_ptr<LiveGroup> group_;
  sockaddr_in address_{};
  std::unique_ptr<LiveDoor> door_;
};

TEST_F(LiveDoorTest, GivesPagesToThoseThatKnowTheKey) { expect_an_answer(); }

TEST_F(LiveDoorTest, GivesNothingToOthers) {
  const Fd fd = connect();
  std::string nonces;
  EXPECT_EQ(ask(fd, {{11, 23}}, &nonces), "");
  expect_an_answer();
}

TEST_F(LiveDoorTest, TakesNoQuestionTwice) {
  const Fd first = connect(), second = connect();
  const std::string question = "12345678" + proof(kKey, "ask", read(first, 16).substr(8) + "12345678");
  ::send(second.get(), question.data(), question.size(), 0);
  EXPECT_EQ(read(second).size(), 16U) << "the greeting alone";
}

TEST_F(LiveDoorTest, KeysStayHere) {
  group_->show_doors("0 127.0.0.1:1 the-key");
  const Fd fd = connect();
  std::string nonces;
  EXPECT_EQ(ask(fd, kKey, &nonces).find("the-key"), std::string::npos);
}

TEST_F(LiveDoorTest, IsNotKeptBusyByStrangers) {
  std::vector<Fd> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(connect());
  for (int i = 0; i < 20; ++i) {
    const Fd garbage = connect();
    const std::string bytes(1 << 16, static_cast<char>(i));
    ::send(garbage.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  const Fd leaves = connect();
  ::shutdown(leaves.get(), SHUT_WR);
  expect_an_answer();
}

TEST_F(LiveDoorTest, AnAskerThatTakesNothingKeepsNobodyOut) {
  std::vector<Fd> slow;
  for (int i = 0; i < 4; ++i) {
    slow.push_back(connect());
    const std::string nonces = read(slow.back(), 16).substr(8) + "12345678";
    const std::string question = "12345678" + proof(kKey, "ask", nonces);
    ::send(slow.back().get(), question.data(), question.size(), 0);
  }
  expect_an_answer();
}

TEST_F(LiveDoorTest, EndsWhileSomebodyAsks) {
  const Fd silent = connect();
  read(silent, 16);
  door_.reset();
  EXPECT_EQ(read(silent), "");
}

TEST_F(LiveDoorTest, CopiesHaveTheStateOfTheirProcess) {
  const std::vector<LivePageCopy> copies = copy_pages(folder_);
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_TRUE(copies[0].state == 'R' || copies[0].state == 'S' || copies[0].state == 'D') << copies[0].state;
  EXPECT_EQ(copies[0].bytes.size(), live::kGroupsAt + live::kGroupBytes);
  EXPECT_TRUE(copy_pages("/nonexistent/folder").empty());
}

}  // namespace
}  // namespace switchml
