// The software switch: sequences of packets of any content from any sender, to sessions that workers open and to those
// that a controller installs. Checked after each: who is sent what, how much of it, and what memory is in use.
#include <algorithm>
#include <memory>
#include <vector>

#include "check.h"
#include "script.h"
#include "slots/slot_store.h"
#include "softswitch/switch.h"
#include "wire/checksum.h"

namespace switchml::softswitch {
namespace {

using fuzz::check;

constexpr size_t kMemory = 1 << 20;
constexpr size_t kPayload = 1024;
constexpr int kJobs = 5;
constexpr uint8_t kClients = 3;
constexpr int kClientJobs = 2;
constexpr size_t kClientMemory = kMemory / 2;

Endpoint endpoint(uint8_t number) {
  Endpoint e;
  e.size = 1;
  e.bytes[0] = number;
  return e;
}

Endpoint client_of(const Endpoint& from) { return endpoint(from.bytes[0] % kClients); }

// Bits of Step::what.
constexpr uint8_t kMember = 1;   // the frame gets job, epoch and key of the last session
constexpr uint8_t kSweep = 2;    // leases are looked at first
constexpr uint8_t kInstall = 4;  // instead of a packet: a session is installed, with members and perhaps a parent
constexpr uint8_t kRemove = 8;   // instead of a packet: the last installed session is removed
constexpr uint8_t kSeal = 16;    // an exact contribution gets the checksum that the last session's key makes right
constexpr uint8_t kByCard = 32;  // the frame comes by a card

/// An exact contribution to the last session. A fuzzer cannot guess checksums, nor whom to send them to.
void become_exact(const wire::OpenReply& session, uint8_t what, bool of_card, std::vector<uint8_t>* frame) {
  if (frame->size() < wire::kExactHeaderBytes) return;
  if (wire::kind_of(frame->data()) != static_cast<uint8_t>(wire::Kind::kExactContribution)) return;
  wire::ExactHeader header = wire::read_exact_header(frame->data());
  if (what & kMember) header.job = session.job, header.epoch = session.epoch;
  wire::write_exact_header(header, frame->data());
  const bool holds_target = frame->size() >= wire::kExactHeaderBytes + wire::kTargetBytes;
  if ((what & kSeal) && (holds_target || !wire::has_target(header))) {
    const wire::ChecksumRule rule{session.session_key, !of_card};
    wire::seal_exact(header, rule, frame->data(), frame->size() - wire::kExactHeaderBytes);
  }
}

class Network : public PacketSink, public MeetTap {
 public:
  Network(bool whole, bool card) : sw_(options(whole, card)), whole_(whole) {
    if (card) sw_.answer_meets_by(this);
  }

  void step(fuzz::Step step) {
    now_ += milliseconds(10) * step.time;
    if (step.what & kSweep) sw_.sweep(now_);
    if (step.what & kInstall) {
      install(step);
    } else if (step.what & kRemove) {
      sw_.remove(last_.job, last_.epoch);
    } else {
      if (step.what & kMember) fuzz::become_member(last_, cookie_, &step.frame);
      become_exact(last_, step.what, of_card_[last_.job], &step.frame);
      if (!step.is_bare()) step.frame = fuzz::sealed(step.frame);
      packet(step);
    }
    check(sw_.slot_memory_in_use() <= kMemory, "slot memory is bounded");
    check(sw_.sessions() <= kJobs + installed_, "sessions are bounded");
    for (uint8_t client = 0; client < kClients; ++client) look_at_share(endpoint(client));
  }

  /// Of results whose members have named a target. [RDMA-7]
  void write(const uint8_t* elements, const wire::Target& target, const uint8_t* frame, size_t size,
             const Endpoint& to) override {
    answer(to);
    const auto same = [&](const Told& told) {
      return told.to == to && told.target.address == target.address && told.target.key == target.key &&
             told.target.bytes == target.bytes;
    };
    check(std::any_of(told_.begin(), told_.end(), same), "only what a member has named is written to");
    check(to.carrier == Carrier::kRdma && knows(to), "members that come by cards are");
    wire::ExactPacket packet;
    check(wire::parse_exact(frame, size, wire::Kind::kExactResult, &packet) == wire::ParseError::kNone,
          "a result whose elements are in a target is well-formed");
    const uint8_t job = packet.header.job;
    check(packet.bytes == 0 && packet.header.flags == wire::kFlagTarget, "it says so, and has none");
    check(exact_[job] && of_card_[job] && target.bytes <= payload_[job], "it is of a session over cards");
    check(wire::exact_intact(frame, size, {key_[job], false}), "its checksum holds");
    const std::vector<uint8_t> written(elements, elements + target.bytes);  // all of it is there
    pay(to, size + written.size());
  }

  void meet(const wire::Join& asked, const wire::Introduction&, uint32_t, const Endpoint& from) override {
    check(from == from_, "who asks is who is met");
    meets_.push_back(asked);
  }

  void unicast(const uint8_t* frame, size_t size, const Endpoint& to) override {
    sent(frame, size, 1);
    answer(to);
    const bool reply = wire::kind_of(frame) == static_cast<uint8_t>(wire::Kind::kReply);
    pay(to, size);
    check(reply ? to == from_ : knows(to), "replies go to who asked, sums to a member or the parent");
  }
  void multicast(const uint8_t* frame, size_t size, const Endpoint* const* to, size_t count) override {
    sent(frame, size, count);
    check(is(frame, wire::Kind::kResult) || is(frame, wire::Kind::kExactResult), "only results go to several");
    for (size_t i = 0; i < count; ++i) {
      check(knows(*to[i]), "results go to members");
      answer(*to[i]);
    }
  }

 private:
  static SwitchOptions options(bool whole, bool card) {
    SwitchOptions options;
    options.has_card = card;
    options.slot_memory_bytes = kMemory;
    options.max_payload_bytes = kPayload;
    options.max_jobs = kJobs;
    options.client_of = client_of;
    options.client_jobs = kClientJobs;
    options.client_memory_bytes = kClientMemory;
    options.whole_chunks = whole;
    options.lease = seconds(1);
    options.seed = 1;
    return options;
  }

  bool knows(const Endpoint& who) const { return std::find(known_.begin(), known_.end(), who) != known_.end(); }

  void packet(const fuzz::Step& step) {
    from_ = endpoint(step.from);
    if (step.what & kByCard) from_.carrier = Carrier::kRdma;
    note_target(step.frame);
    balance_of(from_) += static_cast<int64_t>(step.frame.size());
    answered_.clear();
    largest_ = std::max(wire::kExactHeaderBytes + kPayload, wire::kMaxControlBytes);
    open_ = {};
    if (step.frame.size() >= wire::kControlBytes + wire::kOpenBytes)
      open_ = wire::read_open(step.frame.data() + wire::kControlBytes);
    sw_.process(step.frame.data(), step.frame.size(), from_, now_, *this);
    check(answered_.empty() || meets_.empty(), "who meets is answered later");
    for (const wire::Join& asked : meets_) acquaint(asked);
    meets_.clear();
  }

  void answer(const Endpoint& to) {
    check(std::find(answered_.begin(), answered_.end(), to) == answered_.end(), "a packet is answered once to each");
    answered_.push_back(to);
  }

  void note_target(const std::vector<uint8_t>& frame) {
    wire::ExactPacket packet;
    const auto parsed = wire::parse_exact(frame.data(), frame.size(), wire::Kind::kExactContribution, &packet);
    if (parsed == wire::ParseError::kNone && packet.target) told_.push_back({from_, *packet.target});
  }

  void acquaint(const wire::Join& asked) {
    Endpoint member = from_;
    member.carrier = Carrier::kRdma;
    const JoinOutcome joined = sw_.join(asked, member, now_);
    if (joined.status == wire::ReplyStatus::kProveAddress) cookie_ = joined.reply.cookie;
    if (joined.status != wire::ReplyStatus::kOk) return;
    check(sw_.serves(asked.job, asked.epoch), "who joins has a session");
    known_.push_back(member);
  }

  int64_t& balance_of(const Endpoint& who) { return balance_[who.carrier == Carrier::kRdma][who.bytes[0]]; }

  // Whoever has not shown that it receives what is sent to its address pays for that in advance.
  void pay(const Endpoint& to, size_t size) {
    int64_t& balance = balance_of(to);
    balance -= static_cast<int64_t>(size);
    check(balance >= 0 || knows(to), "a stranger gets no more bytes than came in its name");
  }

  void sent(const uint8_t* frame, size_t size, size_t count) {
    check(count <= kMaxWorkers && size <= largest_, "an answer is bounded");
    wire::ControlPacket control;
    if (wire::parse_control(frame, size, wire::Kind::kReply, &control) == wire::ParseError::kNone) {
      note_reply(frame, size);
      return;
    }
    if (is(frame, wire::Kind::kReply)) {
      const bool is_bare = size == wire::kControlBytes;
      check(is_bare && wire::read_control(frame).status == static_cast<uint16_t>(wire::ReplyStatus::kBadVersion),
            "what another version is told has no checksum, and nothing else");
      return;
    }
    if (is(frame, wire::Kind::kExactResult)) return look_at_exact(frame, size);
    wire::DataPacket data;
    const bool well_formed = wire::parse_data(frame, size, wire::Kind::kResult, &data) == wire::ParseError::kNone ||
                             wire::parse_data(frame, size, wire::Kind::kContribution, &data) == wire::ParseError::kNone;
    check(well_formed, "what is sent is a reply, a result or an aggregate");
    check(data.words * kWordBytes <= payload_[data.header.job], "a result is no longer than its session's payload");
    check(!exact_[data.header.job], "words come of no exact session");
  }

  static bool is(const uint8_t* frame, wire::Kind kind) { return wire::kind_of(frame) == static_cast<uint8_t>(kind); }

  void look_at_exact(const uint8_t* frame, size_t size) const {
    wire::ExactPacket packet;
    check(wire::parse_exact(frame, size, wire::Kind::kExactResult, &packet) == wire::ParseError::kNone,
          "an exact result is well-formed");
    const wire::ExactHeader& header = packet.header;
    check(exact_[header.job], "elements come of exact sessions only");
    check(size - wire::kExactHeaderBytes <= payload_[header.job], "a result is no longer than its session's payload");
    const bool disagree = (header.flags & wire::kFlagDisagree) != 0;
    check((header.flags & ~wire::kFlagDisagree) == 0, "a result has no other flag");
    check(!disagree || size == wire::kExactHeaderBytes, "those that disagree get no elements");
    check(wire::exact_intact(frame, size, {key_[header.job], !of_card_[header.job]}), "its checksum holds");
  }

  void note_reply(const uint8_t* frame, size_t size) {
    wire::Reply reply;
    const bool known_type = wire::parse_reply(frame, size, &reply) == wire::ParseError::kNone;
    if (known_type && reply.status == wire::ReplyStatus::kProveAddress) cookie_ = reply.join.cookie;
    if (!known_type || reply.status != wire::ReplyStatus::kOk) return;
    if (reply.type == wire::Request::kOpen) {
      last_ = reply.open;
      payload_[last_.job] = last_.payload;
      exact_[last_.job] = (last_.flags & wire::kOpenExact) != 0;
      key_[last_.job] = last_.session_key;
      note_owner(reply.open);
    }
    if (reply.type == wire::Request::kJoin) known_.push_back(from_);
  }

  // An open that is asked again, by whomever, is answered with the session that is there.
  void note_owner(const wire::OpenReply& granted) {
    const bool known = std::any_of(opened_.begin(), opened_.end(), [&](const Opened& session) {
      return session.job == granted.job && session.epoch == granted.epoch;
    });
    if (known) return;
    const bool exact = (granted.flags & wire::kOpenExact) != 0;
    check(exact == ((open_.flags & wire::kOpenExact) != 0 && !whole_), "a session is exact where it can be, if asked");
    of_card_[granted.job] = (open_.flags & wire::kOpenRdma) != 0;
    const size_t memory = granted.slots * SlotStore::slot_bytes(granted.payload, exact ? open_.workers : 0);
    opened_.push_back({granted.job, granted.epoch, client_of(from_), memory});
  }

  void look_at_share(const Endpoint& client) {
    const auto ended = [&](const Opened& session) { return !sw_.contributed(session.job, session.epoch, 0, 1).ok(); };
    opened_.erase(std::remove_if(opened_.begin(), opened_.end(), ended), opened_.end());
    int jobs = 0;
    size_t memory = 0;
    for (const Opened& session : opened_) {
      if (session.client == client) ++jobs, memory += session.memory;
    }
    check(jobs <= kClientJobs && memory <= kClientMemory, "no client holds more than its share");
  }

  // Every value comes from the frame, so most are out of range.
  void install(const fuzz::Step& step) {
    if (step.frame.size() < 6) return;
    const std::vector<uint8_t>& f = step.frame;
    InstalledSession session;
    session.job = f[0];
    session.epoch = f[1];
    session.shards = f[2];
    session.slots = f[3];
    session.payload_bytes = size_t{f[4]} << 7;
    for (size_t i = 6; i < f.size() && i < 20; ++i) session.members.insert(f[i] % kMaxWorkers);
    if (f[5] != 0) session.uplink = Uplink{static_cast<uint8_t>(f[5] % kMaxWorkers), endpoint(step.from)};
    if (!sw_.install(session, now_).ok()) return;
    ++installed_;
    last_ = {};
    last_.job = session.job, last_.epoch = session.epoch;
    payload_[session.job] = session.payload_bytes;
    exact_[session.job] = of_card_[session.job] = false;
    if (session.uplink) known_.push_back(session.uplink->parent);
    for (size_t i = 6; i < f.size() && i < 20; ++i) {
      const Endpoint member = endpoint(static_cast<uint8_t>(i));
      if (sw_.set_member(session.job, session.epoch, f[i] % kMaxWorkers, -1, member).ok()) known_.push_back(member);
    }
  }

  /// A target that came in a contribution, and who named it.
  struct Told {
    Endpoint to;
    wire::Target target;
  };

  struct Opened {
    uint8_t job = 0;
    uint32_t epoch = 0;
    Endpoint client;
    size_t memory = 0;
  };

  SoftSwitch sw_;
  Time now_{};
  wire::OpenReply last_;
  uint64_t cookie_ = 0;           // the last one that a join was told
  int64_t balance_[2][256] = {};  // bytes that came from an endpoint, less those that were sent there
  size_t payload_[256] = {};      // by job, as the next three
  bool exact_[256] = {};
  bool of_card_[256] = {};
  uint64_t key_[256] = {};
  std::vector<Told> told_;
  std::vector<Endpoint> known_;  // have been members or parents
  std::vector<Opened> opened_;   // sessions that workers asked for, until they end
  Endpoint from_;
  std::vector<wire::Join> meets_;   // of the packet that is looked at
  std::vector<Endpoint> answered_;  // the packet that is looked at
  int installed_ = 0;               // so far: how many at a time is the affair of the controller
  size_t largest_ = 0;
  wire::Open open_;  // what the frame that is looked at says, if it is an open
  bool whole_;
};

}  // namespace
}  // namespace switchml::softswitch

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace switchml;
  if (size == 0) return 0;
  softswitch::Network network((bytes[0] & 1) != 0, (bytes[0] & 2) != 0);
  const uint8_t* at = bytes + 1;
  fuzz::Step step;
  while (fuzz::next_step(&at, bytes + size, &step)) network.step(step);
  return 0;
}
