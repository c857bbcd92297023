#include "c10d/store_rendezvous.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "fixture.h"

namespace switchml {
namespace {

using StoreRef = c10::intrusive_ptr<c10d::Store>;

std::unique_ptr<StoreRendezvous> opened(const StoreRef& store, int rank) {
  auto result = StoreRendezvous::open(store, rank);
  if (!result.ok()) throw std::runtime_error(result.status().to_string());
  return std::move(result.value());
}

Time soon(milliseconds pause = milliseconds(2000)) { return monotonic_now() + pause; }

/// Fails in the operation that `failing` names.
class TornStore final : public c10d::HashStore {
 public:
  explicit TornStore(std::string failing) : failing_(std::move(failing)) {}
  void set(const std::string& key, const std::vector<uint8_t>& data) override {
    fail_in("set");
    c10d::HashStore::set(key, data);
  }
  int64_t add(const std::string& key, int64_t value) override {
    fail_in("add");
    return c10d::HashStore::add(key, value);
  }
  bool check(const std::vector<std::string>& keys) override {
    fail_in("check");
    return c10d::HashStore::check(keys);
  }

 private:
  void fail_in(const std::string& operation) const {
    if (operation == failing_) throw std::runtime_error("connection reset by peer");
  }
  const std::string failing_;
};

TEST(StoreRendezvous, TheHostOfAStoreIsTheOneThatServesIt) {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  const StoreRef served = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  EXPECT_EQ(host_of(served), "127.0.0.1");
  const StoreRef part = c10::make_intrusive<c10d::PrefixStore>("part", served);
  EXPECT_EQ(host_of(c10::make_intrusive<c10d::PrefixStore>("of it", part)), "127.0.0.1");
  EXPECT_EQ(host_of(c10::make_intrusive<c10d::HashStore>()), "");
}

TEST(StoreRendezvous, HandsValuesFromRankToRank) {
  const StoreRef store = c10::make_intrusive<c10d::HashStore>();
  const auto rank0 = opened(store, 0);
  const auto rank1 = opened(store, 1);
  const std::string binary("a\0b\xff", 4);
  ASSERT_TRUE(rank0->set("secret", binary).ok());
  const auto value = rank1->get("secret", soon());
  ASSERT_TRUE(value.ok()) << value.status().to_string();
  EXPECT_EQ(value.value(), binary);
  ASSERT_TRUE(rank1->set("secret", "newer").ok());
  EXPECT_EQ(rank0->get("secret", soon()).value(), "newer");
}

TEST(StoreRendezvous, NumbersTheOpeningsOfEachRank) {
  const StoreRef store = c10::make_intrusive<c10d::HashStore>();
  EXPECT_EQ(opened(store, 0)->prefix(), "switchml/1/");
  EXPECT_EQ(opened(store, 0)->prefix(), "switchml/2/");
  EXPECT_EQ(opened(store, 1)->prefix(), "switchml/1/");
  EXPECT_EQ(opened(store, 1)->prefix(), "switchml/2/");
  EXPECT_EQ(opened(store, 0)->prefix(), "switchml/3/");
}

TEST(StoreRendezvous, DoesNotSeeTheKeysOfTheTimeBefore) {
  const StoreRef store = c10::make_intrusive<c10d::HashStore>();
  ASSERT_TRUE(opened(store, 0)->set("switch", "old address").ok());
  EXPECT_EQ(opened(store, 1)->get("switch", soon()).value(), "old address");
  EXPECT_EQ(opened(store, 1)->get("switch", soon(milliseconds(5))).status().code(), Code::kTimeout);
}

TEST(StoreRendezvous, ReadsSeveralKeysThatAreThere) {
  const auto rank0 = opened(c10::make_intrusive<c10d::HashStore>(), 0);
  ASSERT_TRUE(rank0->set("a", "1").ok());
  EXPECT_FALSE(rank0->has_all({"a", "b"}).value());
  EXPECT_EQ(rank0->get_all({"a", "b"}).status().code(), Code::kTimeout);
  ASSERT_TRUE(rank0->set("b", "2").ok());
  EXPECT_TRUE(rank0->has_all({"a", "b"}).value());
  EXPECT_EQ(rank0->get_all({"b", "a"}).value(), (std::vector<std::string>{"2", "1"}));
  const auto torn = opened(c10::make_intrusive<TornStore>("check"), 0);
  EXPECT_EQ(torn->has_all({"a"}).status().code(), Code::kUnavailable);
  EXPECT_EQ(torn->get_all({"a"}).status().code(), Code::kUnavailable);
}

TEST(StoreRendezvous, WaitsForAKeyThatComesLater) {
  const StoreRef store = c10::make_intrusive<c10d::HashStore>();
  const auto rank0 = opened(store, 0);
  const auto rank1 = opened(store, 1);
  std::thread later([&] {
    std::this_thread::sleep_for(milliseconds(40));
    EXPECT_TRUE(rank0->set("late", "here").ok());
  });
  const Time start = monotonic_now();
  const auto value = rank1->get("late", soon());
  later.join();
  ASSERT_TRUE(value.ok()) << value.status().to_string();
  EXPECT_EQ(value.value(), "here");
  EXPECT_GE(monotonic_now() - start, milliseconds(30));
}

TEST(StoreRendezvous, GivesUpAtTheDeadlineAndNamesTheKey) {
  const auto rank0 = opened(c10::make_intrusive<c10d::HashStore>(), 0);
  const Time start = monotonic_now();
  const auto value = rank0->get("never", start + milliseconds(40));
  EXPECT_GE(monotonic_now(), start + milliseconds(40));
  EXPECT_EQ(value.status().code(), Code::kTimeout);
  EXPECT_TRUE(contains(value.status().message(), "key 'never' did not appear"));
}

TEST(StoreRendezvous, LooksOnceWhenTheDeadlineHasPassed) {
  const auto rank0 = opened(c10::make_intrusive<c10d::HashStore>(), 0);
  ASSERT_TRUE(rank0->set("there", "yes").ok());
  const Time past = monotonic_now() - seconds(1);
  EXPECT_EQ(rank0->get("there", past).value(), "yes");
  EXPECT_EQ(rank0->get("absent", past).status().code(), Code::kTimeout);
}

void expect_unavailable(const Status& status, const std::string& what) {
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_TRUE(contains(status.message(), "the process group's store failed on " + what));
  EXPECT_TRUE(contains(status.message(), "connection reset by peer"));
}

TEST(StoreRendezvous, ReportsAStoreThatFails) {
  expect_unavailable(StoreRendezvous::open(c10::make_intrusive<TornStore>("add"), 0).status(), "the first key");
  expect_unavailable(opened(c10::make_intrusive<TornStore>("set"), 0)->set("k", "v"), "key 'k'");
  expect_unavailable(opened(c10::make_intrusive<TornStore>("check"), 0)->get("k", soon()).status(), "key 'k'");
}

}  // namespace
}  // namespace switchml
