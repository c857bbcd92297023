// How long a sink may keep the frames that it is handed.
#include <gtest/gtest.h>

#include <functional>

#include "fixture.h"

namespace switchml::softswitch {
namespace {

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

TEST(Burst, FramesStayAsTheyAreUntilTheyAreClaimedBack) {
  Bench bench;
  Job job(bench, 1);
  Borrower sink;
  bench.sw.begin_burst();
  for (uint32_t seq = 1; seq <= 6; ++seq) {  // each version of the slot three times, in one burst
    const auto frame =
        contribution_frame(part(0, 0, seq, {static_cast<int32_t>(seq)}), job.granted.job, job.granted.epoch);
    bench.sw.process(received(frame, job.at(0)), bench.now, sink);
  }
  EXPECT_EQ(sink.reclaimed, 2) << "once for each use after next";
  sink.reclaim();
}

TEST(Burst, AnAnswerToADuplicateIsClaimedBackToo) {
  Bench bench;
  Job job(bench, 1);
  Borrower sink;
  const auto put = [&](uint32_t seq) {
    const auto frame =
        contribution_frame(part(0, 0, seq, {static_cast<int32_t>(seq)}), job.granted.job, job.granted.epoch);
    bench.sw.process(received(frame, job.at(0)), bench.now, sink);
  };
  bench.sw.begin_burst();
  put(1);
  sink.reclaim();
  bench.sw.begin_burst();
  put(1);  // again: answered from the slot
  EXPECT_EQ(sink.kept(), 1U);
  put(3);
  EXPECT_EQ(sink.reclaimed, 2);
  sink.reclaim();
}

TEST(Burst, BurstsThatAreOverClaimNothingBack) {
  Bench bench;
  Job job(bench, 1);
  Borrower sink;
  for (uint32_t seq = 1; seq <= 6; ++seq) {
    const auto frame = contribution_frame(part(0, 0, seq, {1}), job.granted.job, job.granted.epoch);
    bench.sw.begin_burst();
    bench.sw.process(received(frame, job.at(0)), bench.now, sink);
    sink.reclaim();
  }
  EXPECT_EQ(sink.reclaimed, 6) << "only those of this test";
}

TEST(Burst, ALeafThatMarksItsAggregateClaimsItBack) {
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
  bench.sw.begin_burst();
  for (int i = 0; i < 3; ++i) bench.sw.process(received(frame, endpoint(0)), bench.now, sink);
  sink.reclaim();
}

TEST(Burst, ARequestClaimsEverythingBack) {
  Bench bench;
  Job job(bench, 1);
  Borrower sink;
  const auto frame = contribution_frame(part(0, 0, 1, {1}), job.granted.job, job.granted.epoch);
  bench.sw.begin_burst();
  bench.sw.process(received(frame, job.at(0)), bench.now, sink);
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
