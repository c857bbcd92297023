#include "c10d/call_record.h"

#include <gtest/gtest.h>

#include "c10d/flight_log.h"
#include "fixture.h"

namespace switchml {
namespace {

std::shared_ptr<GroupCore> core_of(int rank, int size, std::vector<uint64_t> global_ranks = {}) {
  return std::make_shared<GroupCore>(GroupInfo{rank, size, "test"}, std::move(global_ranks));
}
FlightEntry last_entry() { return FlightLog::of_process().entries().back(); }

using Sizes = std::vector<std::vector<int64_t>>;

TEST(CallRecord, ACollectiveIsCountedNumberedAndLoggedWithTheShapesOfItsTensors) {
  const auto core = core_of(1, 2, {3, 7});
  core->set_sequence(4);
  CallRecord record(core, Call::kAllGather, Way::kPeers);
  EXPECT_EQ(core->calls().get(Call::kAllGather, Way::kPeers), 1U);
  EXPECT_EQ(record.sequence(), 5U);
  EXPECT_STREQ(record.title(), "switchml:all_gather");
  record.log({at::zeros({2, 3}), at::Tensor()}, {{at::zeros({4}, at::kLong)}, {at::zeros({})}}, milliseconds(9));
  FlightEntry entry = last_entry();
  EXPECT_EQ(entry.call, Call::kAllGather);
  EXPECT_EQ(entry.collective, 5U);
  EXPECT_EQ(entry.inputs.sizes(), (Sizes{{2, 3}}));
  EXPECT_STREQ(entry.inputs.types().at(0), "Float");
  EXPECT_EQ(entry.outputs.sizes(), (Sizes{{4}, {}}));
  EXPECT_STREQ(entry.outputs.types().at(0), "Long");
  EXPECT_EQ(entry.timeout, milliseconds(9));
  EXPECT_EQ(FlightLog::of_process().groups().at(entry.group).ranks, (std::vector<uint64_t>{3, 7}));
  EXPECT_EQ(entry.started, 0);
  record.started();
  EXPECT_GT(last_entry().started, 0);
  record.ended(true, 2.5F);
  entry = last_entry();
  EXPECT_TRUE(entry.retired && entry.completed > 0);
  EXPECT_EQ(entry.duration_ms, 2.5F);
}

TEST(CallRecord, OfAMessageOnlyTheOwnEndIsKept) {
  const auto core = core_of(0, 3);
  const TensorList tensors{at::zeros({2})};
  CallRecord(core, Call::kSend, Way::kMemory).log(tensors, {tensors}, {});
  const FlightEntry sent = last_entry();
  EXPECT_TRUE(sent.is_message);
  EXPECT_EQ(sent.inputs.sizes(), (Sizes{{2}}));
  EXPECT_TRUE(sent.outputs.sizes().empty());
  CallRecord(core, Call::kRecv, Way::kMemory).log(tensors, {tensors}, {});
  const FlightEntry received = last_entry();
  EXPECT_TRUE(received.inputs.sizes().empty());
  EXPECT_EQ(received.outputs.sizes(), (Sizes{{2}}));
  EXPECT_EQ(received.message, 2U);
  EXPECT_EQ(core->sequence(), 0U) << "a message has no number among the collectives";
  EXPECT_EQ(FlightLog::of_process().groups().at(sent.group).ranks, (std::vector<uint64_t>{0, 1, 2}));
}

TEST(CallRecord, AMessageGoesFromItsSourceToItsDestination) {
  const auto core = core_of(1, 3);
  const auto logged_from = [&](Call call, int peer) {
    CallRecord record(core, call, Way::kMemory);
    record.log({}, {}, {});
    record.set_peer(peer, 7);
    return last_entry().stream;
  };
  const auto sent = logged_from(Call::kSend, 2), received = logged_from(Call::kRecv, 0);
  EXPECT_EQ(std::make_pair(sent->source, sent->destination), std::make_pair(1, 2));
  EXPECT_EQ(std::make_pair(received->source, received->destination), std::make_pair(0, 1));
  EXPECT_EQ(received->tag, 7);
  EXPECT_FALSE(logged_from(Call::kRecvAnySource, -1));
}

TEST(CallRecord, NothingIsToldOfAPrecheck) {
  const auto core = core_of(0, 2);
  core->next_sequence();
  std::vector<uint64_t> heard;
  core->completion_hooks().add(1, [&](uint64_t key, std::optional<float>) { heard.push_back(key); });
  const size_t entries = FlightLog::of_process().entries().size();
  CallRecord record = CallRecord::of_precheck(core, Call::kAllReduce);
  record.log({}, {}, {});
  record.begin();
  record.ended(true);
  record.succeeded(1);
  EXPECT_EQ(record.sequence(), 1U);
  EXPECT_EQ(record.title(), nullptr);
  EXPECT_EQ(core->calls().total(Way::kLocal), 0U);
  EXPECT_EQ(FlightLog::of_process().entries().size(), entries);
  EXPECT_TRUE(heard.empty());
}

TEST(CallRecord, HoldsAnExtensionOfTimeoutsToItsEnd) {
  const auto core = core_of(0, 2);
  core->extensions().add(milliseconds(500));
  CallRecord first(core, Call::kAllReduce, Way::kMemory), second(core, Call::kAllReduce, Way::kMemory);
  first.begin();
  second.begin();
  second.ended(true);
  EXPECT_EQ(core->extensions().total(), milliseconds(500));
  first.ended(false);
  EXPECT_EQ(core->extensions().total(), milliseconds(0));
}

TEST(TimeUntil, ADeadlineIsATimeout) {
  EXPECT_EQ(time_until(kNever).count(), 0);
  EXPECT_EQ(time_until(monotonic_now() - seconds(1)).count(), 0);
  const auto left = time_until(monotonic_now() + seconds(100));
  EXPECT_GT(left, seconds(10));
  EXPECT_LE(left, seconds(100));
}

}  // namespace
}  // namespace switchml
