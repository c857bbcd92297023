#include "session/detour.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "base/limits.h"
#include "base/thread.h"
#include "transport/frame_memory.h"
#include "wire/packet.h"

namespace switchml {

namespace {

using Frame = std::vector<uint8_t>;

size_t words_in(const Frame& frame) { return (frame.size() - wire::kHeaderBytes) / kWordBytes; }

int32_t word(const Frame& frame, size_t index) {
  return static_cast<int32_t>(wire::detail::load<uint32_t>(frame.data() + wire::kHeaderBytes + index * kWordBytes));
}

void set_word(Frame* frame, size_t index, int32_t value) {
  wire::detail::store<uint32_t>(frame->data() + wire::kHeaderBytes + index * kWordBytes, static_cast<uint32_t>(value));
}

/// A slot as one rank sees it, since the detour began.
struct Slot {
  Frame contribution;
  Frame result;      // of the last use that was answered
  int64_t uses = 0;  // that this rank has contributed to
  int64_t answered = 0;
  bool pending() const { return uses > answered; }
};

}  // namespace

void Roster::waits(int rank, uint64_t round) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (known(rank)) rounds_[static_cast<size_t>(rank)] = round;
}

void Roster::leaves(int rank) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (known(rank)) left_[static_cast<size_t>(rank)] = true;
}

bool Roster::has_left(int rank) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return known(rank) && left_[static_cast<size_t>(rank)];
}

wire::ProbeReply Roster::answer(uint64_t round) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  uint64_t joined[2] = {0, 0};
  uint64_t contributed[2] = {0, 0};
  for (size_t rank = 0; rank < left_.size(); ++rank) {
    const uint64_t bit = uint64_t{1} << (rank % 64);
    if (!left_[rank]) joined[rank / 64] |= bit;
    if (rounds_[rank] == round) contributed[rank / 64] |= bit;
  }
  wire::ProbeReply body;
  body.joined_low = joined[0];
  body.joined_high = joined[1];
  body.contributed_low = contributed[0];
  body.contributed_high = contributed[1];
  return body;
}

class Detour::Rounds {
 public:
  Rounds(std::unique_ptr<RankReducer> reducer, const SessionParameters& session, std::shared_ptr<Roster> roster,
         Callbacks callbacks, uint64_t rounds_before)
      : reducer_(std::move(reducer)),
        roster_(std::move(roster)),
        callbacks_(std::move(callbacks)),
        self_(session.worker),
        per_shard_(session.slots_per_shard()),
        round_(rounds_before),
        slots_(static_cast<size_t>(session.slots)),
        inboxes_(static_cast<size_t>(session.shards)) {
    thread_ = make_thread("sums without a switch", [this] { run(); });
  }

  void stop() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    reducer_->interrupt();
    thread_.join();
  }

  // ---- for the links ----
  int shards() const { return static_cast<int>(inboxes_.size()); }
  void contribute(const uint8_t* data, size_t size) {
    wire::DataPacket packet;
    if (wire::parse_data(data, size, wire::Kind::kContribution, &packet) != wire::ParseError::kNone) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (packet.header.slot >= slots_.size() || stopping_) return;
    Slot& slot = slots_[packet.header.slot];
    if (!slot.contribution.empty() && wire::read_header(slot.contribution.data()).seq == packet.header.seq) {
      // Nothing is lost here; who asks again doubts the result, and gets the same.
      if (!slot.pending()) deliver(packet.header.slot);
      return;
    }
    slot.contribution.assign(data, data + size);
    ++slot.uses;
    news_ = true;
    changed_.notify_all();
  }

  // An engine asks when it has waited for some time. The others learn that this rank waits, and in which round.
  void answer_probe(int shard, const uint8_t* data, size_t size) {
    if (size < wire::kControlBytes) return;
    const wire::Control asked = wire::read_control(data);
    if (asked.type != static_cast<uint8_t>(wire::Request::kProbe)) return;
    bool tell = false;
    uint64_t number = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      number = round_;
      tell = std::exchange(told_, round_) != round_;
      roster_->waits(self_, number);
      inboxes_[static_cast<size_t>(shard)].frames.push_back(probe_reply(asked));
      arrived_.notify_all();
    }
    if (tell && callbacks_.tell_round) callbacks_.tell_round(number);
  }

  bool take(int shard, Frame* frame) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::deque<Frame>& inbox = inboxes_[static_cast<size_t>(shard)].frames;
    if (inbox.empty()) return false;
    *frame = std::move(inbox.front());
    inbox.pop_front();
    return true;
  }

  void wait(int shard, Duration timeout) {
    std::unique_lock<std::mutex> lock(mutex_);
    Inbox& inbox = inboxes_[static_cast<size_t>(shard)];
    arrived_.wait_for(lock, timeout, [&inbox] { return inbox.woken || !inbox.frames.empty(); });
    inbox.woken = false;
  }

  void wake(int shard) {
    const std::lock_guard<std::mutex> lock(mutex_);
    inboxes_[static_cast<size_t>(shard)].woken = true;
    arrived_.notify_all();
  }

 private:
  struct Inbox {
    std::deque<Frame> frames;
    bool woken = false;
  };
  /// What all ranks know of a slot in a round.
  struct Share {
    size_t slot = 0;
    size_t words = 0;
    bool maximum = false;
    Frame frame;  // this rank's contribution; then the result
  };
  static constexpr Duration kPause = milliseconds(1);  // after a round that found nothing to do

  Frame probe_reply(const wire::Control& asked) const {
    Frame frame(wire::kControlBytes + wire::kProbeReplyBytes);
    wire::write_reply_start(asked, wire::ReplyStatus::kOk, frame.data());
    wire::write_probe_reply(roster_->answer(round_), frame.data() + wire::kControlBytes);
    return frame;
  }

  void run() {
    pthread_setname_np(pthread_self(), "switchml-detour");
    while (wait_for_contributions()) {
      const Status status = round();
      if (status.ok()) continue;
      if (!stopping()) callbacks_.on_failure(status);
      return;
    }
  }

  bool wait_for_contributions() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return stopping_ || any_pending(); });
    if (idle_) changed_.wait_for(lock, kPause, [this] { return stopping_ || news_; });
    news_ = false;
    return !stopping_;
  }

  bool stopping() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return stopping_;
  }

  bool any_pending() const {
    return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.pending(); });
  }

  Status round() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++round_;
    }
    std::vector<Share> shares;
    if (Status status = agree(&shares); !status.ok()) return status;
    idle_ = shares.empty();
    if (idle_) return {};
    std::vector<int32_t> sums;
    std::vector<int32_t> maxima;
    for (const Share& share : shares) collect(share, &sums, &maxima);
    if (Status status = reducer_->sum(sums.data(), sums.size()); !status.ok()) return status;
    if (!maxima.empty()) {
      if (Status status = reducer_->maximum(maxima.data(), maxima.size()); !status.ok()) return status;
    }
    const int32_t* sum = sums.data();
    const int32_t* maximum = maxima.data();
    for (Share& share : shares) spread(&share, &sum, &maximum);
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Share& share : shares) answer(&share);
    return {};
  }

  // Which slots everybody has contributed to, how long the longest contribution is, and the operation.
  Status agree(std::vector<Share>* shares) {
    const size_t n = slots_.size();
    std::vector<int64_t> facts(3 * n);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (size_t i = 0; i < n; ++i) {
        const Slot& slot = slots_[i];
        facts[i] = -slot.uses;
        if (!slot.pending()) continue;
        facts[n + i] = static_cast<int64_t>(words_in(slot.contribution));
        facts[2 * n + i] = wire::read_header(slot.contribution.data()).flags & wire::kOperationMask;
      }
    }
    if (Status status = reducer_->maximum(facts.data(), facts.size()); !status.ok()) return status;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = 0; i < n; ++i) {
      if (-facts[i] <= slots_[i].answered) continue;
      const bool maximum = facts[2 * n + i] == static_cast<int64_t>(wire::Operation::kMax);
      shares->push_back({i, static_cast<size_t>(facts[n + i]), maximum, slots_[i].contribution});
    }
    return {};
  }

  static void collect(const Share& share, std::vector<int32_t>* sums, std::vector<int32_t>* maxima) {
    sums->push_back(static_cast<int32_t>(wire::read_header(share.frame.data()).witness));
    std::vector<int32_t>& words = share.maximum ? *maxima : *sums;
    const size_t own = words_in(share.frame);
    for (size_t i = 0; i < share.words; ++i) words.push_back(i < own ? word(share.frame, i) : 0);
  }

  // From here on the frame is what a switch would have answered.
  static void spread(Share* share, const int32_t** sums, const int32_t** maxima) {
    wire::Header header = wire::read_header(share->frame.data());
    header.kind = static_cast<uint8_t>(wire::Kind::kResult);
    header.flags = static_cast<uint8_t>(share->maximum ? wire::Operation::kMax : wire::Operation::kSum);
    header.worker = kAllWorkers;
    header.witness = static_cast<uint32_t>(*(*sums)++);
    share->frame.resize(wire::kHeaderBytes + share->words * kWordBytes);
    wire::write_header(header, share->frame.data());
    const int32_t** words = share->maximum ? maxima : sums;
    for (size_t i = 0; i < share->words; ++i) set_word(&share->frame, i, *(*words)++);
  }

  void answer(Share* share) {
    Slot& slot = slots_[share->slot];
    slot.result = std::move(share->frame);
    ++slot.answered;
    deliver(share->slot);
  }

  void deliver(size_t slot) {
    inboxes_[slot / static_cast<size_t>(per_shard_)].frames.push_back(slots_[slot].result);
    arrived_.notify_all();
  }

  const std::unique_ptr<RankReducer> reducer_;
  const std::shared_ptr<Roster> roster_;
  const Callbacks callbacks_;
  const int self_;
  const int per_shard_;
  std::mutex mutex_;
  std::condition_variable changed_;  // for the rounds
  std::condition_variable arrived_;  // for the shards
  uint64_t round_;                   // that this rank is in, or was last
  uint64_t told_ = 0;                // the last round that it told others of
  std::vector<Slot> slots_;
  std::vector<Inbox> inboxes_;
  bool news_ = false;
  bool idle_ = false;  // the last round found nothing
  bool stopping_ = false;
  std::thread thread_;
};

/// A shard's way into the rounds.
class Detour::Link final : public Transport {
 public:
  Link(std::shared_ptr<Rounds> rounds, int shard) : rounds_(std::move(rounds)), shard_(shard) {}

  const char* name() const override { return "detour"; }
  TransportLimits limits() const override { return {wire::kHeaderBytes + kMaxPayloadBytes, 0, 0}; }
  Endpoint local() const override { return {}; }
  size_t path_frame_bytes(const Endpoint&) const override { return wire::kHeaderBytes + kMaxPayloadBytes; }
  uint8_t* allocate(size_t bytes) override { return memory_.allocate(bytes); }
  size_t send(const TxFrame* frames, size_t count) override {
    for (size_t i = 0; i < count; ++i) {
      if (wire::kind_of(frames[i].data) == static_cast<uint8_t>(wire::Kind::kRequest)) {
        rounds_->answer_probe(shard_, frames[i].data, frames[i].size);
      } else {
        rounds_->contribute(frames[i].data, frames[i].size);
      }
    }
    return count;
  }
  size_t multicast(const uint8_t*, uint32_t, const Endpoint* const*, size_t) override { return 0; }
  size_t receive(RxFrame* frames, size_t count) override {
    size_t n = 0;
    for (; n < count; ++n) {
      Frame frame;
      if (!rounds_->take(shard_, &frame)) break;
      lent_.push_back(std::move(frame));
      frames[n] = {lent_.back().data(), static_cast<uint32_t>(lent_.back().size()), {}};
    }
    return n;
  }
  void release() override { lent_.clear(); }
  void wait(Duration timeout) override { rounds_->wait(shard_, timeout); }
  void wake() override { rounds_->wake(shard_); }
  std::string take_error() override { return {}; }

 private:
  const std::shared_ptr<Rounds> rounds_;
  const int shard_;
  FrameMemory memory_;
  std::deque<Frame> lent_;
};

Detour::Detour(std::unique_ptr<RankReducer> reducer, const SessionParameters& session, std::shared_ptr<Roster> roster,
               Callbacks callbacks, uint64_t rounds_before)
    : rounds_(std::make_shared<Rounds>(std::move(reducer), session, std::move(roster), std::move(callbacks),
                                       rounds_before)) {}

Detour::~Detour() { rounds_->stop(); }

std::vector<std::unique_ptr<Transport>> Detour::transports() {
  std::vector<std::unique_ptr<Transport>> links;
  links.reserve(static_cast<size_t>(rounds_->shards()));
  for (int shard = 0; shard < rounds_->shards(); ++shard) links.push_back(std::make_unique<Link>(rounds_, shard));
  return links;
}

}  // namespace switchml
