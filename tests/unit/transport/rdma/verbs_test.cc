#include "transport/rdma/verbs.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <vector>

#include "fake_library.h"

namespace switchml::rdma {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// All that a queue pair stands on.
struct Card {
  explicit Card(const Verbs& verbs)
      : context(std::move(verbs.open("fake1").value())),
        domain(std::move(verbs.protection_domain(context.get()).value())),
        channel(std::move(verbs.completion_channel(context.get()).value())),
        queue(std::move(verbs.completion_queue(context.get(), 16, channel.get()).value())) {}

  Result<Owned<ibv_qp>> pair(const Verbs& verbs, uint32_t requests = 16) const {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = queue.get();
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {requests, 16, 2, 1, 0};
    return verbs.queue_pair(domain.get(), attributes);
  }

  Owned<ibv_context> context;
  Owned<ibv_pd> domain;
  Owned<ibv_comp_channel> channel;
  Owned<ibv_cq> queue;
};

TEST(Verbs, ALibraryThatIsNotThereIsNamedWithARemedy) {
  const auto verbs = Verbs::load("libnowhere.so.7");
  ASSERT_FALSE(verbs.ok());
  EXPECT_EQ(verbs.status().code(), Code::kUnsupported);
  EXPECT_THAT(verbs.status().message(), AllOf(HasSubstr("libnowhere.so.7"), HasSubstr("install libibverbs1")));
}

TEST(Verbs, ALibraryWithoutAFunctionIsNamedWithIt) {
  const auto verbs = Verbs::load("libdl.so.2");
  ASSERT_FALSE(verbs.ok());
  EXPECT_THAT(verbs.status().message(), HasSubstr("has no ibv_get_device_list()"));
}

TEST(Verbs, DevicesPortsAndAddressesAreFound) {
  const fake_verbs::Library library({.mtu = 4096});
  const Verbs verbs = fake_verbs::Library::verbs();
  EXPECT_THAT(verbs.devices().value(), ElementsAre("fake0", "fake1"));
  const auto context = verbs.open("fake0");
  ASSERT_TRUE(context.ok());
  const auto port = verbs.query_port(context.value().get(), 1);
  ASSERT_TRUE(port.ok());
  EXPECT_TRUE(port->is_active);
  EXPECT_TRUE(port->is_ethernet);
  EXPECT_EQ(port->mtu, IBV_MTU_4096);
  EXPECT_EQ(verbs.query(context.value().get())->ports, 1);
  EXPECT_EQ(verbs.gids(context.value().get())->size(), 3U);
}

TEST(Verbs, ADeviceOfAnotherNameIsNotOpened) {
  const fake_verbs::Library library;
  const auto context = fake_verbs::Library::verbs().open("mlx5_0");
  ASSERT_FALSE(context.ok());
  EXPECT_THAT(context.status().message(), AllOf(HasSubstr("mlx5_0"), HasSubstr("No such device")));
}

TEST(Verbs, ObjectsEndInTheOrderOfWhatStandsOnWhat) {
  const fake_verbs::Library library;
  const Verbs verbs = fake_verbs::Library::verbs();
  {
    const Card card(verbs);
    std::vector<uint8_t> memory(4096);
    const auto region = verbs.memory_region(card.domain.get(), memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
    const auto pair = card.pair(verbs);
    ASSERT_TRUE(region.ok() && pair.ok());
    EXPECT_EQ(library.count().objects, 6U);
  }
  EXPECT_EQ(library.count().objects, 0U);
}

bool child_has(int fd) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::fcntl(fd, F_GETFD) >= 0 ? 1 : 0);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WEXITSTATUS(status) == 1;
}

// Else a data loader keeps the pairs of its parent alive, and peers wait for a rank that has died.
TEST(Verbs, AForkedChildHoldsNoCard) {
  const fake_verbs::Library library;
  const Verbs verbs = fake_verbs::Library::verbs();
  int command = -1, channel = -1;
  {
    const auto context = verbs.open("fake0");
    const auto events = verbs.completion_channel(context.value().get());
    command = context.value()->cmd_fd;
    channel = events.value()->fd;
    EXPECT_FALSE(child_has(command));
    EXPECT_FALSE(child_has(context.value()->async_fd));
    EXPECT_FALSE(child_has(channel));
    EXPECT_GE(::fcntl(command, F_GETFD), 0) << "the parent has it";
  }
  const int next = ::open("/dev/null", O_RDONLY);
  EXPECT_TRUE(child_has(next)) << "whether its number was a card's or not";
  ::close(next);
}

// Each function has its own way to fail, and each error names the function.
TEST(Verbs, EveryReturnCodeIsRead) {
  const fake_verbs::Library library;
  const Verbs verbs = fake_verbs::Library::verbs();
  const Card card(verbs);
  auto pair = card.pair(verbs);
  ASSERT_TRUE(pair.ok());
  uint8_t byte = 0;
  const std::vector<std::pair<const char*, std::function<Status()>>> calls = {
      {"ibv_get_device_list", [&] { return verbs.devices().status(); }},
      {"ibv_get_device_list", [&] { return verbs.open("fake0").status(); }},
      {"ibv_open_device", [&] { return verbs.open("fake0").status(); }},
      {"ibv_query_device", [&] { return verbs.query(card.context.get()).status(); }},
      {"ibv_query_port", [&] { return verbs.query_port(card.context.get(), 1).status(); }},
      {"ibv_query_gid_table", [&] { return verbs.gids(card.context.get()).status(); }},
      {"ibv_alloc_pd", [&] { return verbs.protection_domain(card.context.get()).status(); }},
      {"ibv_reg_mr", [&] { return verbs.memory_region(card.domain.get(), &byte, 1, 0).status(); }},
      {"ibv_create_comp_channel", [&] { return verbs.completion_channel(card.context.get()).status(); }},
      {"ibv_create_cq", [&] { return verbs.completion_queue(card.context.get(), 1, nullptr).status(); }},
      {"ibv_create_srq", [&] { return verbs.shared_receives(card.domain.get(), 1).status(); }},
      {"ibv_create_qp", [&] { return card.pair(verbs).status(); }},
      {"ibv_modify_qp", [&] { return verbs.modify(pair.value().get(), {}, IBV_QP_STATE, "a test"); }},
  };
  for (const auto& [function, call] : calls) {
    library.fail_once(function, EPERM);
    const Status status = call();
    ASSERT_FALSE(status.ok()) << function;
    EXPECT_THAT(status.message(), AllOf(HasSubstr(function), HasSubstr("Operation not permitted")));
  }
}

TEST(Verbs, WhoMayLockTooLittleMemoryHearsOfTheLimit) {
  const fake_verbs::Library library({.no_memory_rights = true});
  const Verbs verbs = fake_verbs::Library::verbs();
  const Card card(verbs);
  std::vector<uint8_t> memory(4096);
  const auto region = verbs.memory_region(card.domain.get(), memory.data(), memory.size(), 0);
  ASSERT_FALSE(region.ok());
  EXPECT_THAT(region.status().message(), AllOf(HasSubstr("of 4096 bytes"), HasSubstr("ulimit -l")));
}

TEST(Verbs, APairThatAsksForTooMuchIsRefused) {
  const fake_verbs::Library library;
  const Verbs verbs = fake_verbs::Library::verbs();
  const Card card(verbs);
  EXPECT_THAT(card.pair(verbs, 1 << 20).status().message(), HasSubstr("ibv_create_qp: Invalid argument"));
}

TEST(Verbs, NoEventIsNoError) {
  const fake_verbs::Library library;
  const Verbs verbs = fake_verbs::Library::verbs();
  const Card card(verbs);
  ASSERT_EQ(::fcntl(card.channel->fd, F_SETFL, O_NONBLOCK), 0);
  EXPECT_FALSE(verbs.take_event(card.channel.get()).value());
}

}  // namespace
}  // namespace switchml::rdma
