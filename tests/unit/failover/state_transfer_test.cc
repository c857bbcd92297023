#include "failover/state_transfer.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "store/map_store.h"
#include "wire/packet.h"

namespace switchml {
namespace {

/// Of an engine, what a transfer asks.
class StoppedEngine final : public Relocatable {
 public:
  explicit StoppedEngine(std::vector<uint32_t> accepted) : accepted_(std::move(accepted)) {}
  std::vector<uint32_t> suspend() override { return accepted_; }
  void set_waiting_for(const std::string&) override {}
  // Says which use it is of, no more.
  std::vector<uint8_t> last_result(int slot) override {
    wire::Header header;
    header.slot = static_cast<uint16_t>(slot);
    header.seq = accepted_[static_cast<size_t>(slot)];
    std::vector<uint8_t> frame(wire::kHeaderBytes);
    wire::write_header(header, frame.data());
    return frame;
  }
  void supply(std::vector<std::vector<uint8_t>> frames) override {
    for (const auto& frame : frames) {
      const wire::Header header = wire::read_header(frame.data());
      const uint32_t next = accepted_[header.slot] + 1;
      if (!refuses && header.seq == next) accepted_[header.slot] = next;
    }
  }
  void resume(const Route&, std::vector<std::unique_ptr<Transport>>) override {}
  bool refuses = false;

 private:
  std::vector<uint32_t> accepted_;
};

/// What each rank's transfer ended with, and where each is then.
struct Outcome {
  std::vector<Status> status;
  std::vector<std::vector<uint32_t>> accepted;
};

Outcome transfer(const std::vector<std::vector<uint32_t>>& accepted, int refuses = -1) {
  MapStore store;
  const auto size = static_cast<int>(accepted.size());
  Outcome outcome;
  outcome.status.resize(accepted.size());
  outcome.accepted.resize(accepted.size());
  each_rank(size, [&](int rank) {
    const auto self = static_cast<size_t>(rank);
    StoppedEngine engine(accepted[self]);
    engine.refuses = rank == refuses;
    StoreChannel channel(store, rank, for_seconds(10));
    outcome.status[self] = StateTransfer(engine, channel, {rank, size, "g"}, 4).run();
    outcome.accepted[self] = engine.suspend();
  });
  return outcome;
}

TEST(StateTransfer, EverybodyGetsWhatAnybodyHas) {  // [MOVE-3]
  const Outcome outcome = transfer({{7, 1, 0}, {6, 2, 0}, {6, 1, 1}});
  for (size_t rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(outcome.status[rank].ok()) << outcome.status[rank].to_string();
    EXPECT_EQ(outcome.accepted[rank], (std::vector<uint32_t>{7, 2, 1})) << "rank " << rank;
  }
}

TEST(StateTransfer, RanksThatAreTooFarApartAllStop) {
  for (const Status& status : transfer({{7}, {5}, {7}}).status) {
    EXPECT_EQ(status.message(), "ranks are more than one use of a slot apart");
  }
}

TEST(StateTransfer, RanksOfOtherSizesAllStop) {
  for (const Status& status : transfer({{7}, {7, 7}}).status) {
    EXPECT_NE(status.message().find("has another number of slots"), std::string::npos) << status.message();
  }
}

TEST(StateTransfer, WhoRefusesAResultIsNamedEverywhere) {
  const Outcome outcome = transfer({{7}, {6}, {6}}, 2);
  for (const Status& status : outcome.status) {
    EXPECT_NE(status.message().find("rank 2 does not accept the result of slot 0"), std::string::npos)
        << status.message();
  }
}

}  // namespace
}  // namespace switchml
