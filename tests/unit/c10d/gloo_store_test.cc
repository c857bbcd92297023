#include "c10d/gloo_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "fixture.h"

namespace switchml {
namespace {

using std::chrono::milliseconds;
using StoreRef = c10::intrusive_ptr<GlooStore>;

class GlooStoreTest : public ::testing::Test {
 protected:
  StoreRef store(milliseconds timeout = milliseconds(10000)) {
    return c10::make_intrusive<GlooStore>(below_, "group/", 4, timeout, [this] {
      return interrupted_.load() ? Status(Code::kAborted, "the group was aborted") : Status::ok_status();
    });
  }
  static std::vector<uint8_t> bytes(const std::string& text) { return {text.begin(), text.end()}; }

  const c10::intrusive_ptr<c10d::HashStore> below_ = c10::make_intrusive<c10d::HashStore>();
  std::atomic<bool> interrupted_{false};
};

TEST_F(GlooStoreTest, KeepsItsKeysUnderThePrefix) {
  const StoreRef mine = store();
  mine->set("0/1", bytes("address"));
  EXPECT_EQ(mine->get("0/1"), bytes("address"));
  EXPECT_EQ(below_->get("group/0/1"), bytes("address"));
  EXPECT_TRUE(mine->check({"0/1"}));
  EXPECT_FALSE(mine->check({"0/1", "0/2"}));
  EXPECT_EQ(mine->add("count", 2), 2);
  EXPECT_EQ(mine->add("count", 3), 5);
  EXPECT_TRUE(mine->deleteKey("0/1"));
  EXPECT_FALSE(mine->check({"0/1"}));
}

TEST_F(GlooStoreTest, WaitsForAKeyWithoutHoldingTheStoreBelow) {
  const StoreRef mine = store();
  std::thread other([&] {
    std::this_thread::sleep_for(milliseconds(30));
    below_->set("other", bytes("the store answers meanwhile"));
    below_->set("group/0/2", bytes("late"));
  });
  EXPECT_EQ(mine->get("0/2"), bytes("late"));
  other.join();
}

TEST_F(GlooStoreTest, NamesTheRanksThatDidNotCome) {
  const StoreRef mine = store(milliseconds(20));
  mine->set("0/1", bytes("here"));
  const std::string text = thrown_by([&] { mine->wait({"0/1", "0/2", "0/3"}); });
  EXPECT_TRUE(contains(text, "rank 2, rank 3 did not come within 0.02"));
  EXPECT_FALSE(contains(text, "rank 1"));
  const std::string key = thrown_by([&] { mine->wait({"0/7"}, milliseconds(5)); });
  EXPECT_TRUE(contains(key, "the owner of key '0/7'")) << "a group of 4 has no rank 7";
}

TEST_F(GlooStoreTest, AnInterruptionEndsAWaitAtOnce) {
  const StoreRef mine = store();
  std::thread other([&] {
    std::this_thread::sleep_for(milliseconds(30));
    interrupted_.store(true);
  });
  const auto begin = std::chrono::steady_clock::now();
  const std::string text = thrown_by([&] { mine->get("0/3"); });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  EXPECT_TRUE(contains(text, "the group was aborted"));
  other.join();
}

TEST_F(GlooStoreTest, ACloneSeesTheSameKeys) {
  const StoreRef mine = store();
  const c10::intrusive_ptr<c10d::Store> other = mine->clone();
  mine->set("0/1", bytes("address"));
  EXPECT_EQ(other->get("0/1"), bytes("address"));
}

}  // namespace
}  // namespace switchml
