// A server and several jobs at once: sums over real sockets while sessions come and go.
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "raw_worker.h"
#include "switchd/server.h"

namespace switchml {
namespace {

constexpr int kWorkers = 3;
constexpr int kSlots = 32;
constexpr uint32_t kUses = 6;  // of each slot, in each session
constexpr int kSessions = 3;   // of each job, one after another
constexpr int kJobs = 3;

uint32_t value(uint64_t key, int worker, uint16_t slot, uint32_t seq) {
  return static_cast<uint32_t>(key) * 1000003U + static_cast<uint32_t>(worker) * 7919U + slot * 104729U + seq * 31U;
}

/// The workers of a job, driven by one thread. Each sends a use of all its slots in one burst, or frame by frame.
class Job {
 public:
  Job(const Endpoint& at, uint64_t key, size_t words, bool in_bursts) : key_(key), words_(words), bursts_(in_bursts) {
    for (int w = 0; w < kWorkers; ++w) workers_.push_back(std::make_unique<RawWorker>(at));
  }

  void live() {
    uint8_t frame[wire::kMaxControlBytes];
    wire::Open open;
    open.client_key = key_;
    open.workers = kWorkers;
    open.shards = 1;
    open.slots = kSlots;
    open.payload = static_cast<uint32_t>(words_ * kWordBytes);
    const wire::OpenReply session = workers_[0]->ask(frame, wire::build_open(open, 1, frame)).open;
    ASSERT_EQ(session.slots, kSlots);
    const auto member = [&session](int w) {
      return wire::Membership{session.job, session.epoch, session.session_key, static_cast<uint8_t>(w)};
    };
    for (int w = 0; w < kWorkers; ++w) {
      ASSERT_EQ(workers_[static_cast<size_t>(w)]->join(member(w)).join.joined, w + 1);
    }
    for (uint32_t seq = 1; seq <= kUses; ++seq) {
      for (int w = 0; w < kWorkers; ++w) put(session, w, seq);
      for (int w = 0; w < kWorkers; ++w) collect(session, w, seq);
      if (testing::Test::HasFatalFailure()) return;
    }
    for (int w = 0; w < kWorkers; ++w) {
      EXPECT_EQ(workers_[static_cast<size_t>(w)]->ask(frame, wire::build_close(member(w), 3, frame)).status,
                wire::ReplyStatus::kOk);
    }
  }

 private:
  void put(const wire::OpenReply& session, int w, uint32_t seq) {
    std::vector<std::vector<uint8_t>> frames;
    for (uint16_t slot = 0; slot < kSlots; ++slot) {
      frames.push_back(contribution(session, w, slot, words_, value(key_, w, slot, seq), seq));
    }
    if (bursts_) return workers_[static_cast<size_t>(w)]->send_burst(frames);
    for (const auto& frame : frames) workers_[static_cast<size_t>(w)]->send(frame);
  }

  void collect(const wire::OpenReply& session, int w, uint32_t seq) {
    std::set<uint16_t> missing;
    for (uint16_t slot = 0; slot < kSlots; ++slot) missing.insert(slot);
    for (int attempt = 0; !missing.empty() && attempt < 20; ++attempt) {
      for (auto frame = receive(w); !frame.empty(); frame = receive(w)) {
        judge(frame, seq, &missing);
        if (testing::Test::HasFatalFailure() || missing.empty()) return;
      }
      put(session, w, seq);  // lost, or late
    }
    FAIL() << missing.size() << " results of use " << seq << " did not come";
  }
  std::vector<uint8_t> receive(int w) { return workers_[static_cast<size_t>(w)]->receive(seconds(2)); }

  void judge(const std::vector<uint8_t>& frame, uint32_t seq, std::set<uint16_t>* missing) const {
    wire::DataPacket packet;
    ASSERT_EQ(wire::parse_data(frame.data(), frame.size(), wire::Kind::kResult, &packet), wire::ParseError::kNone);
    const uint16_t slot = packet.header.slot;
    if (packet.header.seq != seq || missing->erase(slot) == 0) return;  // the answer to a repetition
    ASSERT_EQ(packet.words, words_);
    uint32_t sum = 0;
    for (int w = 0; w < kWorkers; ++w) sum += value(key_, w, slot, seq);
    for (size_t i = 0; i < words_; ++i) {
      ASSERT_EQ(wire::detail::load<uint32_t>(packet.payload + kWordBytes * i),
                sum + kWorkers * static_cast<uint32_t>(i))
          << "slot " << slot << ", seq " << seq << ", word " << i;
    }
  }

  const uint64_t key_;
  const size_t words_;
  const bool bursts_;
  std::vector<std::unique_ptr<RawWorker>> workers_;
};

void run(bool in_bursts) {
  ServerOptions options;
  options.listen = loopback("127.0.0.1:0");
  auto server = SwitchServer::start(options);
  ASSERT_TRUE(server.ok()) << server.status().to_string();
  std::vector<std::thread> jobs;
  for (int job = 0; job < kJobs; ++job) {
    jobs.emplace_back([&server, job, in_bursts] {
      for (int session = 0; session < kSessions; ++session) {
        const auto key = static_cast<uint64_t>(job * 100 + session + 1);
        Job(server.value()->local(), key, job == 0 ? 2304 : 256, in_bursts).live();
      }
    });
  }
  for (std::thread& job : jobs) job.join();
  const SwitchCounters counters = server.value()->counters();
  EXPECT_EQ(counters.sessions_closed.get(), uint64_t{kJobs * kSessions});
  EXPECT_EQ(counters.uses_completed.get(), uint64_t{kJobs * kSessions * kSlots} * kUses);
  EXPECT_EQ(counters.contributions_added.get(), uint64_t{kJobs * kSessions * kSlots} * kUses * kWorkers);
}

TEST(ServerThreads, ItAddsForSeveralJobsInBursts) { run(true); }
TEST(ServerThreads, ItAddsForSeveralJobsFrameByFrame) { run(false); }

}  // namespace
}  // namespace switchml
