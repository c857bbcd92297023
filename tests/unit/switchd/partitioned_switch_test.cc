#include "switchd/partitioned_switch.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <random>
#include <thread>

#include "wire/control.h"
#include "wire/slot_partition.h"

namespace switchml {
namespace {

using Frame = std::vector<uint8_t>;

constexpr int kPartitions = 3;
constexpr int kWorkers = 3;
constexpr int kSlots = 40;
constexpr size_t kWords = 64;
constexpr uint32_t kUses = 12;  // of each slot, in each session
constexpr int kSessions = 4;    // of each job, one after another
constexpr int kJobs = 3;
constexpr uint8_t kControl = 0xff;  // in the place of a worker's number

Endpoint endpoint(int job, int worker) {
  Endpoint e;
  e.size = 2;
  e.bytes[0] = static_cast<uint8_t>(job);
  e.bytes[1] = static_cast<uint8_t>(worker);
  return e;
}

uint32_t word(int job, int worker, uint32_t epoch, uint16_t slot, uint32_t seq, size_t i) {
  uint32_t x = static_cast<uint32_t>(job) * 31U + static_cast<uint32_t>(worker);
  for (const uint32_t part : {epoch, uint32_t{slot}, seq, static_cast<uint32_t>(i)}) x = (x ^ part) * 0x9e3779b1U;
  return x;
}

Frame contribution(const wire::OpenReply& session, int job, int worker, uint16_t slot, uint32_t seq) {
  Frame frame(wire::kHeaderBytes + kWords * kWordBytes);
  wire::Header header;
  header.version = wire::kVersion;
  header.kind = static_cast<uint8_t>(wire::Kind::kContribution);
  header.job = session.job;
  header.worker = static_cast<uint8_t>(worker);
  header.epoch = session.epoch;
  header.slot = slot;
  header.seq = seq;
  header.witness = seq;
  wire::write_header(header, frame.data());
  for (size_t i = 0; i < kWords; ++i) {
    wire::detail::store<uint32_t>(frame.data() + wire::kHeaderBytes + i * kWordBytes,
                                  word(job, worker, session.epoch, slot, seq, i));
  }
  return frame;
}

struct Datagram {
  Frame frame;
  Endpoint address;  // from whom, or to whom
};

/// Copies what a thread's bursts send, for it to deliver when it holds no lock.
class Outbox : public softswitch::PacketSink {
 public:
  void unicast(const uint8_t* frame, size_t size, const Endpoint& to) override {
    sent.push_back({{frame, frame + size}, to});
  }
  void multicast(const uint8_t* frame, size_t size, const Endpoint* const* to, size_t count) override {
    for (size_t i = 0; i < count; ++i) unicast(frame, size, *to[i]);
  }
  std::vector<Datagram> sent;
};

/// Threads around one switch, and jobs whose workers answer every right result with their next contribution. Frames are
/// handed to the thread of their partition, or, with the chance given, to any; some are repeated.
class Machine {
 public:
  explicit Machine(double astray) : astray_(astray), switch_(options()) {
    for (int i = 0; i < kPartitions; ++i) threads_.emplace_back([this, i] { serve(i); });
  }
  ~Machine() {
    stop_ = true;
    for (Queue& queue : queues_) {
      const std::lock_guard<std::mutex> lock(queue.mutex);
      queue.filled.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
  }

  /// One job's life: sessions one after another. Returns what went wrong.
  std::string live(int job) {
    for (int session = 0; session < kSessions; ++session) {
      std::string trouble = one_session(job, static_cast<uint64_t>(job * 1000 + session + 1));
      if (!trouble.empty()) return trouble;
    }
    return "";
  }
  SwitchCounters counters() const { return switch_.counters(); }
  PartitionedSwitch& the_switch() { return switch_; }

 private:
  struct Queue {
    std::mutex mutex;
    std::condition_variable filled;
    std::deque<Datagram> datagrams;
  };
  struct Job {
    std::mutex mutex;
    std::condition_variable changed;
    wire::OpenReply session;
    bool running = false;
    std::map<std::pair<int, uint16_t>, uint32_t> seq;  // by worker and slot: the use under way
    int done = 0;                                      // workers' slots that have had all their uses
    std::string trouble;
    std::map<uint32_t, wire::Reply> replies;
    uint32_t request = 0;
    std::mt19937 random{7};
  };

  static softswitch::SwitchOptions options() {
    softswitch::SwitchOptions options;
    options.partitions = kPartitions;
    options.seed = 1;
    return options;
  }

  void put(Frame frame, const Endpoint& from, bool astray, uint32_t dice) {
    int thread = static_cast<int>(dice % kPartitions);
    if (!astray && frame.size() >= wire::kHeaderBytes) {
      const wire::Header header = wire::read_header(frame.data());
      thread = wire::slot_partition(header.job, header.slot, kPartitions);
    }
    Queue& queue = queues_[static_cast<size_t>(thread)];
    const std::lock_guard<std::mutex> lock(queue.mutex);
    queue.datagrams.push_back({std::move(frame), from});
    queue.filled.notify_one();
  }

  void serve(int home) {
    Queue& queue = queues_[static_cast<size_t>(home)];
    PartitionedSwitch::Scratch scratch;
    Outbox outbox;
    while (!stop_) {
      std::vector<Datagram> burst;
      {
        std::unique_lock<std::mutex> lock(queue.mutex);
        queue.filled.wait_for(lock, milliseconds(100), [&] { return stop_ || !queue.datagrams.empty(); });
        while (!queue.datagrams.empty() && burst.size() < 16) {
          burst.push_back(std::move(queue.datagrams.front()));
          queue.datagrams.pop_front();
        }
      }
      std::vector<RxFrame> frames;
      for (const Datagram& d : burst) {
        frames.push_back({d.frame.data(), static_cast<uint32_t>(d.frame.size()), d.address});
      }
      switch_.process(home, frames.data(), frames.size(), monotonic_now(), outbox, &scratch);
      for (const Datagram& d : outbox.sent) deliver(d);
      outbox.sent.clear();
    }
  }

  void deliver(const Datagram& d) {
    const int number = d.address.bytes[0];
    Job& job = jobs_[static_cast<size_t>(number)];
    const std::lock_guard<std::mutex> lock(job.mutex);
    if (d.address.bytes[1] == kControl || wire::kind_of(d.frame.data()) == static_cast<uint8_t>(wire::Kind::kReply)) {
      wire::Reply reply;
      if (wire::parse_reply(d.frame.data(), d.frame.size(), &reply) != wire::ParseError::kNone)
        job.trouble = "a bad reply";
      job.replies[reply.request_id] = reply;
      job.changed.notify_all();
      return;
    }
    result(job, number, d.address.bytes[1], d.frame);
  }

  void result(Job& job, int number, int worker, const Frame& frame) {
    wire::DataPacket packet;
    if (wire::parse_data(frame.data(), frame.size(), wire::Kind::kResult, &packet) != wire::ParseError::kNone ||
        packet.words != kWords || packet.header.slot >= kSlots) {
      return fail(job, "a malformed result");
    }
    const wire::Header& h = packet.header;
    if (!job.running || h.epoch != job.session.epoch) return;  // repeated, and late
    uint32_t& seq = job.seq[{worker, h.slot}];
    if (h.seq != seq) return;
    if (h.witness != kWorkers * seq) return fail(job, "a wrong witness");
    for (size_t i = 0; i < kWords; ++i) {
      uint32_t sum = 0;
      for (int w = 0; w < kWorkers; ++w) sum += word(number, w, h.epoch, h.slot, seq, i);
      if (wire::detail::load<uint32_t>(packet.payload + i * kWordBytes) != sum) return fail(job, "a wrong sum");
    }
    if (++seq <= kUses) return contribute(job, number, worker, h.slot);
    if (++job.done == kWorkers * kSlots) job.changed.notify_all();
  }

  void contribute(Job& job, int number, int worker, uint16_t slot) {
    const Frame frame = contribution(job.session, number, worker, slot, job.seq[{worker, slot}]);
    const Endpoint from = endpoint(number, worker);
    for (int copies = job.random() % 4 == 0 ? 2 : 1; copies > 0; --copies) {
      put(frame, from, std::generate_canonical<double, 32>(job.random) < astray_, job.random());
    }
  }

  static void fail(Job& job, const std::string& what) {
    if (job.trouble.empty()) job.trouble = what;
    job.changed.notify_all();
  }

  wire::Reply ask(int number, uint8_t who, const std::function<size_t(uint32_t, uint8_t*)>& build) {
    Job& job = jobs_[static_cast<size_t>(number)];
    std::unique_lock<std::mutex> lock(job.mutex);
    const uint32_t id = ++job.request;
    Frame frame(wire::kMaxControlBytes);
    frame.resize(build(id, frame.data()));
    put(std::move(frame), endpoint(number, who), true, job.random());
    job.changed.wait_for(lock, seconds(60), [&] { return job.replies.count(id) != 0 || !job.trouble.empty(); });
    if (job.replies.count(id) == 0) fail(job, "no reply");
    return job.replies[id];
  }

  std::string one_session(int number, uint64_t key) {
    Job& job = jobs_[static_cast<size_t>(number)];
    wire::Open asked;
    asked.client_key = key;
    asked.workers = kWorkers;
    asked.shards = 1;
    asked.slots = kSlots;
    asked.payload = kWords * kWordBytes;
    const wire::OpenReply session =
        ask(number, kControl, [&](uint32_t id, uint8_t* out) { return wire::build_open(asked, id, out); }).open;
    const auto member = [&](int worker) {
      return wire::Membership{session.job, session.epoch, session.session_key, static_cast<uint8_t>(worker)};
    };
    for (int w = 0; w < kWorkers; ++w) {
      wire::Membership joining = member(w);
      const auto join = [&](uint32_t id, uint8_t* out) { return wire::build_join(joining, 0, id, out); };
      joining.cookie = ask(number, static_cast<uint8_t>(w), join).join.cookie;
      ask(number, static_cast<uint8_t>(w), join);
    }
    {
      std::unique_lock<std::mutex> lock(job.mutex);
      job.session = session;
      job.running = true;
      job.seq.clear();
      job.done = 0;
      for (uint16_t slot = 0; slot < kSlots; ++slot) {
        for (int w = 0; w < kWorkers; ++w) {
          job.seq[{w, slot}] = 1;
          contribute(job, number, w, slot);
        }
      }
      job.changed.wait_for(lock, seconds(60), [&] { return job.done == kWorkers * kSlots || !job.trouble.empty(); });
      if (job.done != kWorkers * kSlots) fail(job, "no end in 60 s");
      job.running = false;
      if (!job.trouble.empty()) return job.trouble;
    }
    for (int w = 0; w < kWorkers; ++w) {
      ask(number, kControl, [&](uint32_t id, uint8_t* out) { return wire::build_close(member(w), id, out); });
    }
    const std::lock_guard<std::mutex> lock(job.mutex);
    return job.trouble;
  }

  const double astray_;
  PartitionedSwitch switch_;
  std::atomic<bool> stop_{false};
  Queue queues_[kPartitions];
  Job jobs_[kJobs];
  std::vector<std::thread> threads_;
};

void run_jobs(double astray) {
  Machine machine(astray);
  std::vector<std::thread> jobs;
  std::string trouble[kJobs];
  for (int job = 0; job < kJobs; ++job) jobs.emplace_back([&, job] { trouble[job] = machine.live(job); });
  for (std::thread& job : jobs) job.join();
  for (int job = 0; job < kJobs; ++job) EXPECT_EQ(trouble[job], "") << "job " << job;
  const SwitchCounters counters = machine.counters();
  EXPECT_EQ(counters.sessions_opened.get(), uint64_t{kJobs * kSessions});
  EXPECT_EQ(counters.sessions_closed.get(), uint64_t{kJobs * kSessions});
  EXPECT_EQ(counters.uses_completed.get(), uint64_t{kJobs * kSessions * kSlots} * kUses);
  EXPECT_EQ(counters.contributions_added.get(), uint64_t{kJobs * kSessions * kSlots} * kUses * kWorkers);
  EXPECT_EQ(machine.the_switch().slot_memory_in_use(), 0U);
}

TEST(PartitionedSwitch, ThreadsWithSlotsOfTheirOwnAddWhileSessionsComeAndGo) { run_jobs(0); }

TEST(PartitionedSwitch, FramesThatGoAstrayAreAddedAllTheSame) { run_jobs(0.4); }

/// A switch with a session of one worker, without threads.
struct Still {
  Still() : sw(options()) {
    softswitch::InstalledSession session;
    session.job = 1;
    session.epoch = 9;
    session.slots = kSlots;
    session.payload_bytes = kWords * kWordBytes;
    session.members.insert(0);
    EXPECT_TRUE(sw.exclusively([&](softswitch::SoftSwitch& s) { return s.install(session, Time{}); }).ok());
    EXPECT_TRUE(
        sw.exclusively([&](softswitch::SoftSwitch& s) { return s.set_member(1, 9, 0, 0, endpoint(0, 0)); }).ok());
    opened.job = 1;
    opened.epoch = 9;
  }
  static softswitch::SwitchOptions options() {
    softswitch::SwitchOptions options;
    options.partitions = kPartitions;
    return options;
  }
  PartitionedSwitch sw;
  wire::OpenReply opened;
};

TEST(PartitionedSwitch, FramesOfASlotKeepTheirOrderAndAllAreProcessed) {
  Still still;
  std::vector<Frame> frames;
  for (uint32_t seq = 1; seq <= 4; ++seq) {
    for (uint16_t slot = 0; slot < kSlots; ++slot) frames.push_back(contribution(still.opened, 0, 0, slot, seq));
  }
  std::vector<RxFrame> burst;
  for (const Frame& f : frames) burst.push_back({f.data(), static_cast<uint32_t>(f.size()), endpoint(0, 0)});
  for (int home = 0; home < kPartitions; ++home) {
    PartitionedSwitch::Scratch scratch;
    Outbox outbox;
    still.sw.process(home, burst.data(), burst.size(), Time{}, outbox, &scratch);
    std::map<uint16_t, std::vector<uint32_t>> seqs;
    for (const Datagram& d : outbox.sent) {
      const wire::Header header = wire::read_header(d.frame.data());
      seqs[header.slot].push_back(header.seq);
    }
    EXPECT_EQ(seqs.size(), size_t{kSlots});
    for (const auto& [slot, order] : seqs) {
      // The second and third time: 1 and 2 are stale, 3 and 4 answered once more.
      EXPECT_EQ(order, home == 0 ? (std::vector<uint32_t>{1, 2, 3, 4}) : (std::vector<uint32_t>{3, 4})) << slot;
    }
  }
}

TEST(PartitionedSwitch, WhereAnAnswerLeavesFromIsLearntInABurst) {
  Still still;
  const Frame frame = contribution(still.opened, 0, 0, 5, 1);
  Endpoint from = endpoint(0, 0);
  from.via = 6;
  const RxFrame one{frame.data(), static_cast<uint32_t>(frame.size()), from};
  PartitionedSwitch::Scratch scratch;
  Outbox outbox;
  still.sw.process(0, &one, 1, Time{}, outbox, &scratch);
  ASSERT_EQ(outbox.sent.size(), 1U);
  EXPECT_EQ(outbox.sent[0].address.via, 6);
  EXPECT_EQ(still.sw.counters().packets_received.get(), 1U);
}

/// Counts how often it is told to reclaim, and what it holds then.
class Settling : public Outbox {
 public:
  void reclaim() override { held.push_back(sent.size()); }
  std::vector<size_t> held;
};

TEST(PartitionedSwitch, TheSinkSettlesBeforeEachLockIsGivenBack) {
  Still still;
  std::vector<Frame> frames;
  for (const uint16_t slot : {0, 8, 16}) frames.push_back(contribution(still.opened, 0, 0, slot, 1));
  std::vector<RxFrame> burst;
  for (const Frame& f : frames) burst.push_back({f.data(), static_cast<uint32_t>(f.size()), endpoint(0, 0)});
  PartitionedSwitch::Scratch scratch;
  Settling sink;
  still.sw.process(1, burst.data(), burst.size(), Time{}, sink, &scratch);
  EXPECT_EQ(sink.held, (std::vector<size_t>{1, 2, 3}));
}

TEST(PartitionedSwitch, ItsMemoryIsKnownWithoutALock) {
  Still still;
  const size_t used = still.sw.slot_memory_in_use();
  EXPECT_GT(used, size_t{kSlots} * 2 * kWords * kWordBytes);
  still.sw.exclusively([&](softswitch::SoftSwitch& s) {
    EXPECT_EQ(still.sw.slot_memory_in_use(), used);
    s.remove_all();
  });
  EXPECT_EQ(still.sw.slot_memory_in_use(), 0U);
}

}  // namespace
}  // namespace switchml
