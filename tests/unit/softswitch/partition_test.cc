// Partitions: who may drive which part of a switch, and how long a sink may keep the frames that it is handed.
#include <gtest/gtest.h>

#include <functional>

#include "fixture.h"
#include "wire/slot_partition.h"

namespace switchml::softswitch {
namespace {

SwitchOptions with_partitions(int partitions) {
  SwitchOptions options;
  options.lease = seconds(30);
  options.partitions = partitions;
  return options;
}

RxFrame received(const std::vector<uint8_t>& frame, const Endpoint& from) {
  return {frame.data(), static_cast<uint32_t>(frame.size()), from};
}

Contribution part(int worker, uint16_t slot, uint32_t seq, std::vector<int32_t> words) {
  Contribution c;
  c.worker = static_cast<uint8_t>(worker);
  c.slot = slot;
  c.seq = seq;
  c.words = std::move(words);
  return c;
}

/// Keeps frames where they lie, as long as it may, and looks whether they stay as they were.
class Borrower : public PacketSink {
 public:
  void unicast(const uint8_t* frame, size_t size, const Endpoint&) override { keep(frame, size); }
  void multicast(const uint8_t* frame, size_t size, const Endpoint* const*, size_t) override { keep(frame, size); }
  void reclaim() override {
    ++reclaimed;
    if (on_settle) on_settle();
    for (const auto& [frame, copy] : kept_) {
      EXPECT_EQ(std::vector<uint8_t>(frame, frame + copy.size()), copy) << "changed before it was claimed back";
    }
    kept_.clear();
  }
  size_t kept() const { return kept_.size(); }
  int reclaimed = 0;
  std::function<void()> on_settle;

 private:
  void keep(const uint8_t* frame, size_t size) { kept_.push_back({frame, {frame, frame + size}}); }
  std::vector<std::pair<const uint8_t*, std::vector<uint8_t>>> kept_;
};

TEST(Partition, EveryFrameHasOneAndRequestsHaveAll) {
  Bench bench(with_partitions(4));
  Job job(bench, 2, 1, 64);
  const uint8_t number = job.granted.job;
  for (uint16_t slot = 0; slot < 64; ++slot) {
    const auto frame = contribution_frame(part(0, slot, 1, {1}), number, job.granted.epoch);
    EXPECT_EQ(bench.sw.partition_of(frame.data(), frame.size()), wire::slot_partition(number, slot, 4));
    EXPECT_EQ(bench.sw.partition_of(frame.data(), wire::kHeaderBytes - 1), 0) << "not even a header";
  }
  uint8_t request[wire::kMaxControlBytes];
  const size_t size = wire::build_join(job.member(0), 0, 7, request);
  EXPECT_EQ(bench.sw.partition_of(request, size), SoftSwitch::kWholeSwitch);
  EXPECT_EQ(bench.sw.partition_of(request, 1), SoftSwitch::kWholeSwitch);
  EXPECT_EQ(bench.sw.partition_of(nullptr, 0), 0);
}

TEST(Partition, SumsAndCountersAreThoseOfOneSwitch) {
  std::map<std::string, uint64_t> counted[2];
  for (const int partitions : {1, 5}) {
    Bench bench(with_partitions(partitions));
    Job job(bench, 3, 1, 64);
    for (uint16_t slot = 0; slot < 64; ++slot) {
      for (int w = 0; w < 3; ++w) {
        const auto frame = contribution_frame(part(w, slot, 1, {w, slot}), job.granted.job, job.granted.epoch);
        const int partition = bench.sw.partition_of(frame.data(), frame.size());
        RecordingSink sink;
        bench.sw.begin_burst(partition);
        ASSERT_TRUE(bench.sw.process_in(partition, received(frame, job.at(w)), bench.now, sink));
        ASSERT_EQ(sink.sent.size(), w == 2 ? 1U : 0U);
        if (w == 2) {
          EXPECT_EQ(result_of(sink.sent[0].frame).words, (std::vector<int32_t>{3, 3 * slot}));
        }
      }
    }
    job.put(part(1, 9, 1, {1}));      // answered
    bench.put({1, 2, 3}, job.at(0));  // short
    job.put(part(0, 64, 1, {1}));     // no such slot
    counted[partitions == 1 ? 0 : 1] = nonzero(bench.sw.counters());
  }
  EXPECT_EQ(counted[0], counted[1]);
}

TEST(Partition, AnAnswerThatHasToLeaveFromElsewhereTakesTheWholeSwitch) {
  Bench bench(with_partitions(2));
  Job job(bench, 1, 1, 64);
  const auto frame = contribution_frame(part(0, 0, 1, {5}), job.granted.job, job.granted.epoch);
  const int partition = bench.sw.partition_of(frame.data(), frame.size());
  Endpoint from = job.at(0);
  from.via = 3;
  RecordingSink sink;
  const auto before = nonzero(bench.sw.counters());
  EXPECT_FALSE(bench.sw.process_in(partition, received(frame, from), bench.now, sink));
  EXPECT_EQ(nonzero(bench.sw.counters()), before) << "nothing was done";
  bench.sw.process(frame.data(), frame.size(), from, bench.now, sink);
  ASSERT_EQ(sink.sent.size(), 1U);
  EXPECT_EQ(sink.sent[0].to[0].via, 3);
  EXPECT_TRUE(bench.sw.process_in(partition, received(frame, from), bench.now, sink)) << "it is known now";
}

TEST(Partition, AnyOfThemKeepsASessionAlive) {
  for (const uint16_t slot : {0, 8, 16, 24}) {
    Bench bench(with_partitions(4));
    Job job(bench, 1, 1, 32);
    bench.now += seconds(29);
    const auto frame = contribution_frame(part(0, slot, 1, {5}), job.granted.job, job.granted.epoch);
    RecordingSink sink;
    ASSERT_TRUE(bench.sw.process_in(bench.sw.partition_of(frame.data(), frame.size()), received(frame, job.at(0)),
                                    bench.now, sink));
    bench.now += seconds(29);
    bench.sw.sweep(bench.now);
    EXPECT_EQ(bench.sw.sessions(), 1) << "slot " << slot;
    bench.now += seconds(2);
    bench.sw.sweep(bench.now);
    EXPECT_EQ(bench.sw.sessions(), 0) << "slot " << slot;
  }
}

// An open that lacks room ends sessions that are silent, but not one that a partition has just heard.
TEST(Partition, WhoWasHeardIsNotSilent) {
  SwitchOptions options = with_partitions(2);
  options.max_jobs = 1;
  Bench bench(options);
  Job job(bench, 1, 1, 32);
  bench.now += seconds(20);
  job.put(part(0, 8, 1, {5}));
  EXPECT_EQ(bench.open(ask_for(1, 1, 8, 1024, 2)).status, wire::ReplyStatus::kNoJobs);
  bench.now += seconds(20);
  EXPECT_EQ(bench.open(ask_for(1, 1, 8, 1024, 2)).status, wire::ReplyStatus::kOk);
}

TEST(Partition, FramesStayAsTheyAreUntilTheyAreClaimedBack) {
  Bench bench;
  Job job(bench, 1);
  Borrower sink;
  bench.sw.begin_burst(0);
  for (uint32_t seq = 1; seq <= 6; ++seq) {  // each version of the slot three times, in one burst
    const auto frame =
        contribution_frame(part(0, 0, seq, {static_cast<int32_t>(seq)}), job.granted.job, job.granted.epoch);
    ASSERT_TRUE(bench.sw.process_in(0, received(frame, job.at(0)), bench.now, sink));
  }
  EXPECT_EQ(sink.reclaimed, 2) << "once for each use after next";
  sink.reclaim();
}

TEST(Partition, AnAnswerToADuplicateIsClaimedBackToo) {
  Bench bench;
  Job job(bench, 1);
  Borrower sink;
  const auto put = [&](uint32_t seq) {
    const auto frame =
        contribution_frame(part(0, 0, seq, {static_cast<int32_t>(seq)}), job.granted.job, job.granted.epoch);
    ASSERT_TRUE(bench.sw.process_in(0, received(frame, job.at(0)), bench.now, sink));
  };
  bench.sw.begin_burst(0);
  put(1);
  sink.reclaim();
  bench.sw.begin_burst(0);
  put(1);  // again: answered from the slot
  EXPECT_EQ(sink.kept(), 1U);
  put(3);
  EXPECT_EQ(sink.reclaimed, 2);
  sink.reclaim();
}

TEST(Partition, BurstsThatAreOverClaimNothingBack) {
  Bench bench;
  Job job(bench, 1);
  Borrower sink;
  for (uint32_t seq = 1; seq <= 6; ++seq) {
    const auto frame = contribution_frame(part(0, 0, seq, {1}), job.granted.job, job.granted.epoch);
    bench.sw.begin_burst(0);
    ASSERT_TRUE(bench.sw.process_in(0, received(frame, job.at(0)), bench.now, sink));
    sink.reclaim();
  }
  EXPECT_EQ(sink.reclaimed, 6) << "only those of this test";
}

TEST(Partition, ALeafThatMarksItsAggregateClaimsItBack) {
  Bench bench;
  InstalledSession session;
  session.job = 4;
  session.epoch = 77;
  session.slots = 8;
  session.payload_bytes = 256;
  session.members = WorkerSet::first(1);
  session.uplink = Uplink{0, endpoint(500)};
  ASSERT_TRUE(bench.sw.install(session, bench.now).ok());
  ASSERT_TRUE(bench.sw.set_member(4, 77, 0, -1, endpoint(0)).ok());
  Borrower sink;
  const auto frame = contribution_frame(part(0, 0, 1, {1, 2}), 4, 77);
  bench.sw.begin_burst(0);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(bench.sw.process_in(0, received(frame, endpoint(0)), bench.now, sink));
  sink.reclaim();
}

TEST(Partition, ARequestClaimsEverythingBack) {
  Bench bench;
  Job job(bench, 1);
  Borrower sink;
  const auto frame = contribution_frame(part(0, 0, 1, {1}), job.granted.job, job.granted.epoch);
  bench.sw.begin_burst(0);
  ASSERT_TRUE(bench.sw.process_in(0, received(frame, job.at(0)), bench.now, sink));
  std::vector<std::pair<int, size_t>> seen;  // at each reclaim(): sessions, frames held
  sink.on_settle = [&] { seen.push_back({bench.sw.sessions(), sink.kept()}); };
  uint8_t request[wire::kMaxControlBytes];
  const size_t size = wire::build_close(job.member(0), 9, request);
  bench.sw.process(request, size, job.at(0), bench.now, sink);  // frees the slots, and answers from its own memory
  EXPECT_EQ(seen, (std::vector<std::pair<int, size_t>>{{1, 1}, {0, 1}}))
      << "the result while its slot lives, the reply";
  EXPECT_EQ(bench.sw.sessions(), 0);
}

}  // namespace
}  // namespace switchml::softswitch
