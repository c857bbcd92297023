#include "c10d/flight_entries.h"

#include <gtest/gtest.h>

#include "fixture.h"

namespace switchml {
namespace {

FlightEntry logged(uint64_t id) {
  for (const FlightEntry& entry : FlightLog::of_process().entries()) {
    if (entry.id == id) return entry;
  }
  ADD_FAILURE() << "no entry " << id;
  return {};
}

using Sizes = std::vector<std::vector<int64_t>>;

TEST(FlightEntries, ACollectiveHasTheShapesOfItsTensors) {
  GroupCore core({1, 2, "test"}, {3, 7});
  const TensorList inputs{at::zeros({2, 3}), at::Tensor()};
  const uint64_t id =
      log_call(core, Call::kAllGather, 5, inputs, {{at::zeros({4}, at::kLong)}, {at::zeros({})}}, milliseconds(9));
  const FlightEntry entry = logged(id);
  EXPECT_EQ(entry.call, Call::kAllGather);
  EXPECT_EQ(entry.collective, 5U);
  EXPECT_EQ(entry.inputs.sizes, (Sizes{{2, 3}}));
  EXPECT_STREQ(entry.inputs.types.at(0), "Float");
  EXPECT_EQ(entry.outputs.sizes, (Sizes{{4}, {}}));
  EXPECT_STREQ(entry.outputs.types.at(0), "Long");
  EXPECT_EQ(entry.timeout, milliseconds(9));
  EXPECT_EQ(FlightLog::of_process().groups().at(entry.group).ranks, (std::vector<uint64_t>{3, 7}));
}

TEST(FlightEntries, OfAMessageOnlyTheOwnEndIsKept) {
  const GroupCore core({0, 3, "test"});
  const TensorList tensors{at::zeros({2})};
  const FlightEntry sent = logged(log_call(core, Call::kSend, 0, tensors, {tensors}, {}));
  EXPECT_TRUE(sent.is_message);
  EXPECT_EQ(sent.inputs.sizes, (Sizes{{2}}));
  EXPECT_TRUE(sent.outputs.sizes.empty());
  const FlightEntry received = logged(log_call(core, Call::kRecv, 0, tensors, {tensors}, {}));
  EXPECT_TRUE(received.inputs.sizes.empty());
  EXPECT_EQ(received.outputs.sizes, (Sizes{{2}}));
  EXPECT_EQ(received.message, 2U);
  EXPECT_EQ(FlightLog::of_process().groups().at(sent.group).ranks, (std::vector<uint64_t>{0, 1, 2}));
}

TEST(FlightEntries, AMessageGoesFromItsSourceToItsDestination) {
  const GroupCore core({1, 3, "test"});
  const auto logged_from = [&](Call call, int peer) {
    const uint64_t id = log_call(core, call, 0, {}, {}, {});
    log_peer(core, id, call, peer, 7);
    return logged(id).stream;
  };
  const auto sent = logged_from(Call::kSend, 2), received = logged_from(Call::kRecv, 0);
  EXPECT_EQ(std::make_pair(sent->source, sent->destination), std::make_pair(1, 2));
  EXPECT_EQ(std::make_pair(received->source, received->destination), std::make_pair(0, 1));
  EXPECT_EQ(received->tag, 7);
  EXPECT_FALSE(logged_from(Call::kRecvAnySource, -1));
}

TEST(FlightEntries, ADeadlineIsATimeout) {
  EXPECT_EQ(time_until(kNever).count(), 0);
  EXPECT_EQ(time_until(monotonic_now() - seconds(1)).count(), 0);
  const auto left = time_until(monotonic_now() + seconds(100));
  EXPECT_GT(left, seconds(10));
  EXPECT_LE(left, seconds(100));
}

}  // namespace
}  // namespace switchml
