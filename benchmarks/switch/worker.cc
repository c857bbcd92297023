#include "worker.h"

#include <cstring>

#include "socket/address.h"
#include "transport/udp.h"
#include "wire/control.h"

namespace switchml::bench {

namespace {

constexpr size_t kBurstFrames = 64;
constexpr Duration kAnswerTime = seconds(5);
// The first words of a contribution differ with every use of every slot, so that an old sum, or another slot's, is
// wrong; the others have one of a few patterns, which stay in the cache. (Building whole payloads anew would cost more
// than the measured work.)
constexpr size_t kFreshWords = 16;
constexpr uint32_t kPatterns = 8;

uint32_t mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  return x ^ (x >> 16);
}

/// Word `index` of the sum over some workers; with seq 0 that of the slot's pattern.
uint32_t word(int first_worker, int workers, uint32_t slot, uint32_t seq, size_t index) {
  const uint32_t which = seq == 0 ? slot % kPatterns : mix(seq) + slot;
  uint32_t sum = 0;
  for (int w = first_worker; w < first_worker + workers; ++w) {
    sum += mix(static_cast<uint32_t>(w) * 0x01000193U + which * 0x9e3779b9U + static_cast<uint32_t>(index));
  }
  return sum;
}

void store_words(uint8_t* to, size_t count, int first_worker, int workers, uint32_t slot, uint32_t seq) {
  for (size_t i = 0; i < count; ++i) {
    wire::detail::store<uint32_t>(to + kWordBytes * i, word(first_worker, workers, slot, seq, i));
  }
}

uint32_t witness(int worker, uint32_t slot, uint32_t seq) {
  return mix(seq * 31U + slot) * (2U * static_cast<uint32_t>(worker) + 1U);
}

}  // namespace

Result<std::unique_ptr<Worker>> Worker::create(const Load& load, int number) {
  UdpOptions options;
  options.peer = load.to;
  options.receive_buffer_bytes = 32 << 20;
  options.send_buffer_bytes = 32 << 20;
  options.receive_frames = kBurstFrames;
  auto transport = make_udp_transport(options);
  if (!transport.ok()) return transport.status();
  return std::unique_ptr<Worker>(new Worker(load, number, std::move(transport.value())));
}

Result<std::vector<uint8_t>> Worker::ask(const std::vector<uint8_t>& request) {
  const Time end = monotonic_now() + kAnswerTime;
  while (monotonic_now() < end) {
    const TxFrame frame{request.data(), static_cast<uint32_t>(request.size()), nullptr};
    transport_->send(&frame, 1);
    transport_->wait(milliseconds(100));
    RxFrame received;
    while (transport_->receive(&received, 1) == 1) {
      std::vector<uint8_t> answer(received.data, received.data + received.size);
      transport_->release();
      if (wire::kind_of(answer.data()) == static_cast<uint8_t>(wire::Kind::kReply)) return answer;
    }
  }
  return Status(Code::kUnavailable, to_string(load_.to) + " does not answer: is a switch running there?");
}

Result<wire::OpenReply> Worker::open() {
  wire::OpenReply session;
  session.job = 1;
  session.epoch = 1;
  session.slots = static_cast<uint16_t>(load_.slots == 0 ? 128 : load_.slots);
  session.payload = static_cast<uint32_t>(load_.payload_bytes);
  if (load_.reflect) return session;
  wire::Open asked;
  asked.client_key = static_cast<uint64_t>(monotonic_now().time_since_epoch().count());
  asked.workers = static_cast<uint16_t>(load_.workers);
  asked.shards = 1;
  asked.slots = static_cast<uint16_t>(load_.slots);
  asked.payload = static_cast<uint32_t>(load_.payload_bytes);
  std::vector<uint8_t> frame(wire::kMaxControlBytes);
  frame.resize(wire::build_open(asked, 1, frame.data()));
  const auto answer = ask(frame);
  if (!answer.ok()) return answer.status();
  wire::Reply reply;
  if (wire::parse_reply(answer.value().data(), answer.value().size(), &reply) != wire::ParseError::kNone ||
      reply.status != wire::ReplyStatus::kOk || reply.open.payload != load_.payload_bytes) {
    return Status(Code::kUnavailable, "the switch does not grant a session of " + std::to_string(load_.workers) +
                                          " workers with payloads of " + std::to_string(load_.payload_bytes) +
                                          " bytes: " + wire::to_string(reply.status));
  }
  return reply.open;
}

Status Worker::join(const wire::OpenReply& session) {
  session_ = session;
  slots_ = session.slots;
  frame_bytes_ = wire::kHeaderBytes + session.payload;
  stride_ = (frame_bytes_ + 127) / 64 * 64;
  const size_t words = session.payload / kWordBytes;
  frames_ = transport_->allocate(static_cast<size_t>(slots_) * stride_);
  seq_.assign(static_cast<size_t>(slots_), 0);
  for (int slot = 0; slot < slots_; ++slot) {
    uint8_t* payload = frame(static_cast<uint16_t>(slot)) + wire::kHeaderBytes;
    store_words(payload, words, number_, 1, static_cast<uint32_t>(slot), 0);
  }
  expected_.resize(kPatterns * session.payload);
  const int first = load_.reflect ? number_ : 0;
  for (uint32_t pattern = 0; pattern < kPatterns; ++pattern) {
    store_words(&expected_[pattern * session.payload], words, first, load_.reflect ? 1 : load_.workers, pattern, 0);
  }
  if (load_.reflect) return {};
  wire::Membership member{session.job, session.epoch, session.session_key, static_cast<uint8_t>(number_)};
  bool good = false;
  wire::Reply reply;
  for (uint32_t id = 2; id < 10 && !good; ++id) {  // The second join has the cookie.
    std::vector<uint8_t> request(wire::kMaxControlBytes);
    request.resize(wire::build_join(member, 0, id, request.data()));
    const auto answer = ask(request);
    if (!answer.ok()) return answer.status();
    const bool read =
        wire::parse_reply(answer.value().data(), answer.value().size(), &reply) == wire::ParseError::kNone;
    if (!read || !wire::has_body(reply.status)) break;
    good = reply.status == wire::ReplyStatus::kOk;
    member.cookie = reply.join.cookie;
  }
  return good ? Status{}
              : Status(Code::kUnavailable,
                       "worker " + std::to_string(number_) + " may not join: " + wire::to_string(reply.status));
}

Status Worker::close() {
  if (load_.reflect) return {};
  std::vector<uint8_t> request(wire::kMaxControlBytes);
  const wire::Membership member{session_.job, session_.epoch, session_.session_key, static_cast<uint8_t>(number_)};
  request.resize(wire::build_close(member, 3, request.data()));
  const auto answer = ask(request);
  return answer.ok() ? Status{} : answer.status();
}

/// Builds the contribution of the slot's present use.
void Worker::build(uint16_t slot) {
  const uint32_t seq = seq_[slot];
  uint8_t* to = frame(slot);
  wire::Header header;
  header.version = wire::kVersion;
  header.kind = static_cast<uint8_t>(wire::Kind::kContribution);
  header.job = session_.job;
  header.worker = static_cast<uint8_t>(number_);
  header.epoch = session_.epoch;
  header.slot = slot;
  header.seq = seq;
  header.witness = witness(number_, slot, seq);
  wire::write_header(header, to);
  store_words(to + wire::kHeaderBytes, kFreshWords, number_, 1, slot, seq);
}

void Worker::push(uint16_t slot, bool again) {
  if (!again) {
    seq_[slot] = seq_[slot] == 0 ? kFirstSeq : wire::next_seq(seq_[slot]);
    build(slot);
  }
  outgoing_.push_back({frame(slot), static_cast<uint32_t>(frame_bytes_), nullptr});
}

bool Worker::wrong(const std::string& what) {
  error_ = "worker " + std::to_string(number_) + ": " + what;
  progress_.failed = true;
  return false;
}

/// Judges one frame; an awaited result begins the slot's next use. False: it is wrong.
bool Worker::take(const RxFrame& received) {
  wire::DataPacket packet;
  const auto kind = load_.reflect ? wire::Kind::kContribution : wire::Kind::kResult;
  if (wire::parse_data(received.data, received.size, kind, &packet) != wire::ParseError::kNone) return true;
  const wire::Header& header = packet.header;
  if (header.slot >= slots_ || header.epoch != session_.epoch) return wrong("a result of another session");
  if (header.seq != seq_[header.slot]) return true;  // The answer to a repetition.
  uint32_t sum = 0;
  for (int w = 0; w < load_.workers; ++w) sum += witness(w, header.slot, header.seq);
  if (load_.reflect) sum = witness(number_, header.slot, header.seq);
  const std::string where = "slot " + std::to_string(header.slot) + ", seq " + std::to_string(header.seq);
  if (header.witness != sum || packet.words * kWordBytes != load_.payload_bytes)
    return wrong("a wrong witness or length, " + where);
  const uint8_t* expected = &expected_[header.slot % kPatterns * load_.payload_bytes];
  uint8_t fresh[kFreshWords * kWordBytes];
  store_words(fresh, kFreshWords, load_.reflect ? number_ : 0, load_.reflect ? 1 : load_.workers, header.slot,
              header.seq);
  if (std::memcmp(packet.payload, fresh, sizeof fresh) != 0 ||
      std::memcmp(packet.payload + sizeof fresh, expected + sizeof fresh, load_.payload_bytes - sizeof fresh) != 0) {
    return wrong("a wrong sum, " + where);
  }
  progress_.results.fetch_add(1, std::memory_order_relaxed);
  push(header.slot, false);
  return true;
}

void Worker::flush() {
  if (outgoing_.empty()) return;
  const size_t taken = transport_->send(outgoing_.data(), outgoing_.size());
  progress_.packets_sent.fetch_add(taken, std::memory_order_relaxed);
  progress_.bytes_sent.fetch_add(taken * frame_bytes_, std::memory_order_relaxed);
  outgoing_.clear();
}

void Worker::run(const std::atomic<bool>& stop) {
  for (int slot = 0; slot < slots_; ++slot) push(static_cast<uint16_t>(slot), false);
  flush();
  Time last = monotonic_now();
  RxFrame frames[kBurstFrames];
  while (!stop.load(std::memory_order_relaxed)) {
    const size_t count = transport_->receive(frames, kBurstFrames);
    if (count == 0) {
      if (monotonic_now() - last > kPatience) {
        for (int slot = 0; slot < slots_; ++slot) push(static_cast<uint16_t>(slot), true);
        progress_.repeats.fetch_add(static_cast<uint64_t>(slots_), std::memory_order_relaxed);
        flush();
        last = monotonic_now();
      }
      transport_->wait(milliseconds(10));
      continue;
    }
    last = monotonic_now();
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; ++i) {
      bytes += frames[i].size;
      if (!take(frames[i])) return;
    }
    transport_->release();
    progress_.packets_received.fetch_add(count, std::memory_order_relaxed);
    progress_.bytes_received.fetch_add(bytes, std::memory_order_relaxed);
    flush();
  }
}

}  // namespace switchml::bench
