#include "c10d/group_core.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <stdexcept>
#include <thread>

#include "base/interruption.h"
#include "client/switches.h"
#include "fixture.h"
#include "session/session.h"
#include "store/map_store.h"

namespace switchml {
namespace {

GroupInfo info() { return {1, 4, "default_pg"}; }

/// A store that counts what is posted for comparison.
class CountingStore : public MapStore {
 public:
  Status set(const std::string& key, const std::string& value) override {
    if (key.rfind("switchml/call/", 0) == 0) ++comparisons;
    return MapStore::set(key, value);
  }
  std::atomic<int> comparisons{0};
};

/// A session of one rank, at a switch of its own.
std::shared_ptr<Session> session_alone(Rendezvous& store) {
  auto session = Session::open(quick_config(), {0, 1, "alone"}, store, monotonic_now() + seconds(60));
  EXPECT_TRUE(session.ok()) << session.status().to_string();
  return std::move(session.value());
}

TEST(GroupCore, NamesACallForMessages) {
  const GroupCore core(info());
  EXPECT_EQ(core.context(Call::kAllReduce), "switchml all_reduce on rank 1 of 4 (group default_pg)");
  EXPECT_EQ(core.context(Call::kBarrier), "switchml barrier on rank 1 of 4 (group default_pg)");
  EXPECT_EQ(core.group().name, "default_pg");
}

TEST(GroupCore, TellsHowLongItHasEnded) {
  GroupCore core(info());
  EXPECT_EQ(core.ended_for(), std::nullopt);
  core.close(Status(Code::kAborted, "closed"));
  const std::optional<Duration> first = core.ended_for();
  ASSERT_TRUE(first.has_value());
  EXPECT_GE(core.ended_for(), first);
}

TEST(GroupCore, CountsAsEndedForItsStagerWhileItRests) {
  GroupCore core(info());
  bool had_ended = false;
  core.stager().post([&] {
    while (!core.ended_for()) std::this_thread::yield();
    had_ended = true;
  });
  core.rest();
  EXPECT_TRUE(had_ended);
  EXPECT_EQ(core.ended_for(), std::nullopt) << "it lives on";
}

TEST(GroupCore, NumbersCollectivesFromOne) {
  GroupCore core(info());
  EXPECT_EQ(core.sequence(), 0U);
  EXPECT_EQ(core.next_sequence(), 1U);
  EXPECT_EQ(core.next_sequence(), 2U);
  EXPECT_EQ(core.sequence(), 2U);
  core.set_sequence(40);
  EXPECT_EQ(core.next_sequence(), 41U);
}

TEST(GroupCore, GivesEachNumberOnce) {
  GroupCore core(info());
  on_each_rank(4, [&](int) {
    for (int i = 0; i < 1000; ++i) core.next_sequence();
  });
  EXPECT_EQ(core.sequence(), 4000U);
}

TEST(GroupCore, HandsItsSessionOutWhenItCloses) {
  GroupCore core(info());
  EXPECT_TRUE(core.closed().ok());
  EXPECT_EQ(core.session(), nullptr);
  EXPECT_EQ(core.engine_way(), Way::kLocal);
  MapStore store;
  const auto session = session_alone(store);
  core.set_session(session);
  EXPECT_EQ(core.session(), session);
  EXPECT_EQ(core.engine_way(), Way::kSwitch);
  EXPECT_EQ(core.close({Code::kAborted, "first reason"}), session);
  EXPECT_EQ(core.session(), nullptr);
  EXPECT_EQ(core.close({Code::kTimeout, "second reason"}), nullptr);
  EXPECT_EQ(core.closed().code(), Code::kAborted);
  EXPECT_EQ(core.closed().message(), "first reason");
}

TEST(GroupCore, WhoIsGoneFromOneGroupIsGoneFromOthersOfTheWorld) {
  const int world = 0;
  const int another = 0;
  GroupCore all({0, 4, "default"}, {}, &world);
  MapStore store;
  const auto session = session_alone(store);
  session->membership().note_gone(1, "rank 1 (h, process 7) is gone: killed");
  session->membership().note_gone(3, "rank 3 (h, process 9) is gone: killed");
  const GroupCore part({0, 3, "part"}, {0, 2, 3}, &world);
  EXPECT_TRUE(part.gone_from(all).ok()) << "without a session nothing is known";
  all.set_session(session);
  EXPECT_EQ(part.gone_from(all).message(),
            "rank 2 is gone, as group default knows: rank 3 (h, process 9) is gone: killed");
  EXPECT_TRUE(GroupCore({0, 2, "others"}, {0, 2}, &world).gone_from(all).ok());
  EXPECT_TRUE(GroupCore({0, 3, "another world's"}, {0, 2, 3}, &another).gone_from(all).ok());
  EXPECT_TRUE(GroupCore({0, 4, "of no known world"}).gone_from(all).ok());
  all.close({Code::kAborted, "destroyed"});
  EXPECT_TRUE(part.gone_from(all).ok()) << "ranks may have begun anew";
}

TEST(GroupCore, KeepsWhyTheFirstCallFailed) {
  GroupCore core(info());
  EXPECT_TRUE(core.failure().ok());
  core.call_failed({Code::kTimeout, "nobody came"});
  core.call_failed({Code::kMismatch, "another one"});
  EXPECT_EQ(core.failure().message(), "nobody came");
  EXPECT_TRUE(core.health().ok()) << "the engine has not said so";
  core.close({Code::kAborted, "shut down"});
  EXPECT_EQ(core.failure().code(), Code::kTimeout);
}

TEST(GroupCore, HasFailedWhenItIsClosed) {
  GroupCore core(info());
  core.close({Code::kAborted, "shut down"});
  EXPECT_EQ(core.failure().code(), Code::kAborted);
}

TEST(GroupCore, HasLandedWhenEverythingHas) {
  GroupCore core(info());
  EXPECT_TRUE(core.wait_until_landed(milliseconds(0))) << "nothing was under way";
  core.begin_operation();
  core.begin_operation();
  core.end_operation();
  const Time start = monotonic_now();
  EXPECT_FALSE(core.wait_until_landed(milliseconds(30)));
  EXPECT_GE(monotonic_now() - start, milliseconds(30));
  std::thread last([&] {
    std::this_thread::sleep_for(milliseconds(30));
    core.end_operation();
  });
  EXPECT_TRUE(core.wait_until_landed(seconds(20)));
  EXPECT_LT(monotonic_now() - start, seconds(10));
  last.join();
}

TEST(GroupCore, ComparesCallsOnce) {
  GroupCore core(info());
  CountingStore store;
  core.set_session(session_alone(store));
  on_each_rank(4, [&](int) { EXPECT_EQ(core.compare_calls("mine"), "rank 0 called mine"); });
  EXPECT_EQ(core.compare_calls("another"), "rank 0 called mine");
  EXPECT_EQ(store.comparisons.load(), 1);
}

TEST(GroupCore, AnInterruptionEndsTheSession) {
  GroupCore core(info());
  MapStore store;
  const auto session = session_alone(store);
  core.set_session(session);
  core.let_signals_in("barrier");
  EXPECT_TRUE(session->engine().status().ok());
  set_interruption_check([] { throw std::runtime_error("Ctrl-C"); });
  EXPECT_EQ(thrown_by([&] { core.let_signals_in("barrier"); }), "Ctrl-C");
  set_interruption_check(nullptr);
  const std::string why = session->engine().status().message();
  EXPECT_NE(why.find("gave up: a signal ended its wait for barrier"), std::string::npos) << why;
}

TEST(GroupCore, HasNothingToCompareWithoutASession) {
  GroupCore core(info());
  EXPECT_EQ(core.compare_calls("mine"), "");
}

// ---- Outstanding ----

c10::intrusive_ptr<SwitchWork> pending() {
  return c10::make_intrusive<SwitchWork>(0, c10d::OpType::ALLREDUCE, CallRecord("test"));
}

TEST(Outstanding, KeepsWhatRunsInOrder) {
  Outstanding outstanding;
  std::vector<c10::intrusive_ptr<SwitchWork>> works;
  for (int i = 0; i < 300; ++i) {  // past every sweep
    works.push_back(pending());
    outstanding.add(works.back());
  }
  const auto all = outstanding.all();
  ASSERT_EQ(all.size(), works.size());
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].lock(), works[i]);
  for (const auto& work : works) work->succeed();
}

TEST(Outstanding, ForgetsWhatIsComplete) {
  Outstanding outstanding;
  for (int i = 0; i < 1000; ++i) {
    const auto work = pending();
    outstanding.add(work);
    work->succeed();
    EXPECT_LE(outstanding.all().size(), 1U);
  }
}

TEST(Outstanding, SweepsBehindOneThatDoesNotComplete) {
  Outstanding outstanding;
  const auto slow = pending();
  outstanding.add(slow);
  std::vector<c10::intrusive_ptr<SwitchWork>> done;
  for (int i = 0; i < 1000; ++i) {
    done.push_back(pending());
    outstanding.add(done.back());
    done.back()->succeed();
    EXPECT_LE(outstanding.all().size(), 64U);
  }
  EXPECT_EQ(outstanding.all().front().lock(), slow);
  slow->succeed();
}

TEST(Outstanding, KeepsNothingAlive) {
  Outstanding outstanding;
  outstanding.add(pending());
  const auto all = outstanding.all();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_TRUE(all[0].expired());
}

TEST(CallOrder, LaunchesWhatWaitsInItsOrderAndNothingBeforeIt) {
  CallOrder order;
  std::vector<int> launched;
  const auto call = [&](int number, bool holds) {
    if (order.pass([&launched, number] { launched.push_back(number); }, holds)) launched.push_back(number);
  };
  call(0, false);
  call(1, true);
  for (int number = 2; number <= 5; ++number) call(number, number % 2 != 0);
  EXPECT_EQ(launched, (std::vector<int>{0, 1}));
  order.release();
  EXPECT_EQ(launched, (std::vector<int>{0, 1, 2, 3})) << "the last of them holds the others";
  EXPECT_TRUE(order.is_held());
  call(6, false);
  order.release();
  EXPECT_EQ(launched.back(), 5);
  order.release();
  EXPECT_EQ(launched, (std::vector<int>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_FALSE(order.is_held());
}

}  // namespace
}  // namespace switchml
