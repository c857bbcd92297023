#include "session/shared_memory.h"

#include <gtest/gtest.h>

#include "fixture.h"
#include "shm/arena.h"
#include "shm/board.h"

namespace switchml {
namespace {

Time soon() { return monotonic_now() + seconds(5); }

TEST(SharedMemory, IsWantedWhereNothingElseIsNamed) {
  const auto wanted = [](const std::string& transport, bool one_host, const std::function<void(Config*)>& change) {
    Config config;
    config.transport = transport;
    if (change) change(&config);
    return wants_memory(config, one_host);
  };
  EXPECT_TRUE(wanted("auto", true, nullptr));
  EXPECT_FALSE(wanted("auto", false, nullptr));
  EXPECT_FALSE(wanted("auto", true, [](Config* c) { c->switch_address = "s:1"; }));
  EXPECT_FALSE(wanted("auto", true, [](Config* c) { c->controller = "c:1"; }));
  EXPECT_FALSE(wanted("auto", true, [](Config* c) { c->faults = "seed=1"; }));
  EXPECT_FALSE(wanted("auto", true, [](Config* c) { c->precision = Precision::kInteger; }));
  EXPECT_TRUE(wanted("auto", true, [](Config* c) { c->fallback = true; }));
  EXPECT_TRUE(wanted("shm", true, nullptr));
  EXPECT_FALSE(wanted("udp", true, nullptr));
  EXPECT_FALSE(wanted("udp", false, nullptr));
}

TEST(SharedMemory, IsForOneHost) {
  Config config;
  for (const char* transport : {"auto", "udp"}) {
    config.transport = transport;
    EXPECT_TRUE(check_hosts(config, {"a", "b"}).ok()) << "nobody has asked for it";
  }
  config.transport = "shm";
  EXPECT_TRUE(check_hosts(config, {"a"}).ok());
  EXPECT_TRUE(check_hosts(config, {"a", "a", "a"}).ok());
  const Status status = check_hosts(config, {"a", "a", "b", "c"});
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  for (const char* part : {"SWITCHML_TRANSPORT=\"shm\"", "rank 2 is on another host", "use auto, udp, tcp or rdma"}) {
    EXPECT_TRUE(contains(status, part)) << status.message();
  }
}

/// An offer, as it comes through the store.
struct Offered {
  explicit Offered(int ranks, size_t arena_bytes = 0) {
    Blob written;
    auto made = offer_memory(shm::shape_for(ranks), arena_bytes, &written);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    if (made.ok()) offer = std::move(made.value());
    blob = Blob::parse(written.encode()).value();
  }
  MemoryOffer offer;
  Blob blob;
};

TEST(SharedMemory, WhatIsOfferedIsWhatIsFetched) {
  for (const int ranks : {1, 2, 128}) {
    Offered offered(ranks);
    ASSERT_NE(offered.offer.segment, nullptr);
    EXPECT_EQ(offered.offer.segment->size(), shm::segment_bytes(shm::shape_for(ranks), 0));
    auto first = fetch_memory(offered.blob, shm::shape_for(ranks), soon());
    auto second = fetch_memory(offered.blob, shm::shape_for(ranks), soon());
    ASSERT_TRUE(first.ok()) << first.status().to_string();
    ASSERT_TRUE(second.ok()) << second.status().to_string();
    const size_t last = offered.offer.segment->size() - 1;
    ASSERT_EQ(first.value()->size(), last + 1);
    EXPECT_EQ(first.value()->data()[last], 0) << "it begins with zeros";
    offered.offer.segment->data()[last] = 1;
    EXPECT_EQ(first.value()->data()[last], 1);
    second.value()->data()[0] = 2;
    EXPECT_EQ(offered.offer.segment->data()[0], 2);
    EXPECT_EQ(first.value()->fd(), -1) << "a descriptor that nobody needs";
  }
}

TEST(SharedMemory, HasRoomForTensorsWhereItIsAskedFor) {
  Config config;
  config.arena_mib = 3;
  EXPECT_EQ(arena_bytes(config, 7), 3U << 20);
  config.arena_mib = 0;
  EXPECT_EQ(arena_bytes(config, 7), 0U);
  config.arena_mib = std::nullopt;
  EXPECT_GE(arena_bytes(config, 2), 2 * arena_bytes(config, 4));

  const Offered offered(2, 3 << 20);
  auto fetched = fetch_memory(offered.blob, shm::shape_for(2), soon());
  ASSERT_TRUE(fetched.ok()) << fetched.status().to_string();
  for (int rank = 0; rank < 2; ++rank) {
    const auto arena = shm::Arena::open(fetched.value(), shm::shape_for(2), rank);
    ASSERT_NE(arena, nullptr);
    EXPECT_EQ(arena->capacity(), 3U << 20);
  }
  const Offered too_much(2, SIZE_MAX / 4);
  EXPECT_EQ(too_much.offer.segment->size(), shm::segment_bytes(shm::shape_for(2), 0))
      << "ordinary tensors are better than no group";
}

TEST(SharedMemory, OutlivesTheOffer) {
  auto offered = std::make_unique<Offered>(2);
  auto fetched = fetch_memory(offered->blob, shm::shape_for(2), soon());
  ASSERT_TRUE(fetched.ok()) << fetched.status().to_string();
  offered->offer.segment->data()[9] = 3;
  const Blob blob = offered->blob;
  offered.reset();
  EXPECT_EQ(fetched.value()->data()[9], 3);
  const auto late = fetch_memory(blob, shm::shape_for(2), soon());
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.status().code(), Code::kUnavailable);
}

TEST(SharedMemory, TwoOffersAreApart) {
  const Offered a(2);
  const Offered b(2);
  EXPECT_NE(a.blob.text("memory"), b.blob.text("memory"));
  EXPECT_NE(a.blob.text("memory_key"), b.blob.text("memory_key"));
  a.offer.segment->data()[0] = 1;
  auto fetched = fetch_memory(b.blob, shm::shape_for(2), soon());
  ASSERT_TRUE(fetched.ok()) << fetched.status().to_string();
  EXPECT_EQ(fetched.value()->data()[0], 0);
}

TEST(SharedMemory, ABlobThatSpeaksOfNoneGivesNone) {
  Blob blob;
  blob.set("address", "127.0.0.1:4000");
  auto fetched = fetch_memory(blob, shm::shape_for(2), soon());
  ASSERT_TRUE(fetched.ok()) << fetched.status().to_string();
  EXPECT_EQ(fetched.value(), nullptr);
}

TEST(SharedMemory, WhatCannotBeFetchedIsSaid) {
  const Offered offered(2);
  const std::string longer(200, 'x');
  struct Case {
    const char* key;
    std::string value;
    int ranks;
    Code code;
    const char* part;
  };
  const Case cases[] = {
      {"memory_key", "4711", 2, Code::kUnavailable, "refuses"},
      {"memory_key", "", 2, Code::kMismatch, "install the same switchml"},
      {"memory_bytes", "64", 2, Code::kMismatch, "another size"},
      {"memory_bytes", "", 2, Code::kMismatch, "another size"},
      {"memory", "switchml-nobody", 2, Code::kUnavailable, "cannot be asked"},
      {"memory", longer, 2, Code::kMismatch, "install the same switchml"},
      {"unchanged", "", 3, Code::kMismatch, "another size"},
  };
  for (const Case& c : cases) {
    Blob blob = offered.blob;
    blob.set(c.key, c.value);
    const auto fetched = fetch_memory(blob, shm::shape_for(c.ranks), soon());
    ASSERT_FALSE(fetched.ok()) << c.key << "=" << c.value;
    EXPECT_EQ(fetched.status().code(), c.code) << fetched.status().message();
    EXPECT_TRUE(contains(fetched.status(), c.part)) << fetched.status().message();
  }
}

}  // namespace
}  // namespace switchml
