// From tensors to frames: open slots in the order of the stream, quantize straight into their frames, send in bursts.
#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/limits.h"
#include "engine/shard.h"

namespace switchml {

namespace {
// A burst goes out when it holds this much, so that the switch works while later chunks are being quantized.
constexpr size_t kBurstBytes = 128 * 1024;
}  // namespace

void Shard::pump(Time now) {
  if (!status_.ok() || suspended_) return;
  window_limits_ = false;
  for (Stream& stream : streams_) {  // the short one first [LANE-8]
    if (session_.native) {
      while (open_native(stream, now)) {
      }
      continue;
    }
    while (open_call(stream, now)) {
    }
    while (open_data(stream, now)) {
    }
  }
  owed_ = 0;
  flush();
}

// To the short stream a collective of the bulk one is a place among its calls.
void Shard::announce(Task& task, Time now) {
  task.announced = true;
  seal(open_slot(lanes_[0], task, Stage::kAnnounced, 0, {}), 0, 0, now);  // [LANE-7]
}

bool Shard::open_call(Stream& stream, Time now) {
  Lane& lane = calls_of(stream);
  Task* task = task_at(stream.call_cursor);
  if (task == nullptr || !lane.pool.can_open()) return false;
  if (task->stream != stream.kind) {
    if (stream.kind == Task::Stream::kShort && !task->announced) announce(*task, now);
    ++stream.call_cursor;
    return true;
  }
  if (task->all_calls_opened()) {
    ++stream.call_cursor;
    return true;
  }
  const size_t g = task->next_call;
  if (task->plan.with_exponents()) {
    if (stream.ring.full()) return false;
    stream.ring.take(task->serial, g, task->plan.superblock(g));
  }
  if (stream.kind == Task::Stream::kShort) task->announced = true;
  ++task->next_call;
  InFlight& flight = open_slot(lane, *task, Stage::kCall, g, task->plan.superblock(g));
  seal(flight, task->codec.encode_call(g, words_of(flight)), 0, now);  // [CALL-1]
  return true;
}

// Moves the data cursor past collectives that have no more data. False if there is none with data left.
bool Shard::skip_to_data_task(Stream& stream) {
  while (Task* task = task_at(stream.data_cursor)) {
    const uint64_t serial = stream.data_cursor;
    if (task->stream == stream.kind) {
      while (!task->all_data_opened() && task->plan.chunks_of_superblock(task->next_superblock) == 0)
        ++task->next_superblock;
      if (!task->all_data_opened()) return true;
      on_task_progress(*task);  // may have waited for just this: a barrier, or a tensor without elements
    }
    stream.data_cursor = std::max(stream.data_cursor, serial + 1);
  }
  return false;
}

bool Shard::open_data(Stream& stream, Time now) {
  Lane& lane = data_of(stream);
  if (!lane.pool.can_open() || !skip_to_data_task(stream)) return false;
  Task& task = *task_at(stream.data_cursor);
  if (!window_allows(stream)) return false;
  const size_t g = task.next_superblock;
  Superblock* superblock = nullptr;
  if (task.plan.with_exponents()) {
    superblock = stream.ring.find(task.serial, g);
    if (superblock == nullptr || !superblock->ready) return false;  // its exponents are still on their way [CALL-8]
    if (superblock->has_nonfinite) {
      // The counts come first: once the first sums are written, an in-place input is gone.
      const size_t chunks = task.plan.chunks_of_superblock(g);
      if (superblock->nonfinite_sent < chunks) {
        open_nonfinite(task, superblock, lane, now);  // [CALL-9]
        return true;
      }
      if (superblock->nonfinite_done < chunks) return false;  // [CALL-10]
    }
  }
  const ElementRange range = task.plan.chunk(g, task.next_chunk);
  if (++task.next_chunk == task.plan.chunks_of_superblock(g)) {
    ++task.next_superblock;
    task.next_chunk = 0;
  }
  InFlight& flight = open_slot(lane, task, Stage::kData, g, range);
  const size_t words = task.codec.encode_data(range, superblock, words_of(flight));
  seal(flight, words, task.codec.exponents_hash(range, superblock), now);
  return true;
}

void Shard::open_nonfinite(Task& task, Superblock* superblock, Lane& lane, Time now) {
  const ElementRange range = task.plan.chunk(superblock->number, superblock->nonfinite_sent++);
  InFlight& flight = open_slot(lane, task, Stage::kNonfinite, superblock->number, range);
  seal(flight, task.codec.encode_nonfinite(range, words_of(flight)), 0, now);
}

InFlight& Shard::open_slot(Lane& lane, Task& task, Stage stage, size_t superblock, ElementRange range) {
  const SlotPool::Opened opened = lane.pool.open();
  InFlight& flight = in_flight_[static_cast<size_t>(lane.first_index + opened.index)];
  flight.task = &task;
  flight.stage = stage;
  flight.superblock = superblock;
  flight.range = range;
  flight.slot = opened.slot;
  flight.seq = opened.seq;
  flight.witness_failures = 0;
  flight.elements = nullptr;
  flight.has_target = false;
  retransmitter_.on_opened(flight.index);
  ++task.in_flight;
  return flight;
}

// What all contributions to a use must have in common, as a keyed hash.
uint32_t Shard::mask_of(const InFlight& flight, uint64_t exponents_hash) const {  // [WIT-8]
  const Collective& collective = flight.task->collective();
  quant::MaskInput mask;
  mask.epoch = nonce_;
  mask.seq = flight.seq;
  mask.slot = flight.slot;
  mask.op = static_cast<uint8_t>(collective.op);
  mask.type = static_cast<uint8_t>(collective.type);
  mask.stage = static_cast<uint8_t>(flight.stage);
  mask.count = collective.count;
  mask.first = flight.range.begin;
  mask.exponents_hash = exponents_hash ^ flight.task->covered;  // [WIT-12]
  return witness_.mask(mask);
}

// Header and witness around the words that are already in the frame, then off it goes.
void Shard::seal(InFlight& flight, size_t words, uint64_t exponents_hash, Time now) {
  SWITCHML_ASSERT(words * kWordBytes <= session_.payload_bytes);
  flight.mask = mask_of(flight, exponents_hash);
  flight.words = words;
  flight.sent_bytes = words > 0 && session_.whole_chunks ? session_.payload_bytes : words * kWordBytes;  // [LEN-4]
  std::memset(words_of(flight) + words * kWordBytes, 0, flight.sent_bytes - words * kWordBytes);
  if (flight.stage == Stage::kCall) witness_.guard(words_of(flight), words, flight.mask);  // [CALL-7]
  const wire::Operation operation = flight.task->codec.operation(flight.stage);
  wire::Header header;
  header.version = wire::kVersion;
  header.kind = static_cast<uint8_t>(wire::Kind::kContribution);
  header.flags = static_cast<uint8_t>(operation);
  header.job = session_.job;
  header.worker = static_cast<uint8_t>(session_.worker);
  header.epoch = session_.epoch;
  header.slot = flight.slot;
  header.seq = flight.seq;
  const bool summed = operation == wire::Operation::kSum;
  // [WIT-3, WIT-4]
  header.witness = witness_.contribution(session_.worker, flight.mask, words_of(flight), summed ? words : 0);
  wire::write_header(header, flight.frame);
  transmit(flight, now);
}

void Shard::transmit(InFlight& flight, Time now, bool asks) {
  const bool is_repeat = retransmitter_.on_sent(flight.index, now);
  if (is_repeat) {
    if (!asks) counters_.retransmissions.add(1);
    if (asks) ++unjudged_;
    if (asks && liveness_.waits_for_others()) judge_repeats(true);
    flight.frame[wire::kHeaderOffsetFlags] |= wire::kFlagRepeat;  // [LOSS-1, PKT-4]
  }
  liveness_.on_sent(now);
  tx_.push_back(frame_of(flight, is_repeat));
  tx_bytes_ += tx_.back().size + tx_.back().rest_size;
  if (tx_.size() == kBurst || tx_bytes_ >= kBurstBytes) flush();
}

void Shard::flush() {
  if (tx_.empty()) return;
  const size_t taken = transport().send(tx_.data(), tx_.size());
  // What the kernel did not take counts as lost on the way; the timers bring it back.
  if (taken < tx_.size()) counters_.send_errors.add(1);
  counters_.packets_sent.add(taken);
  for (size_t i = 0; i < taken; ++i) counters_.bytes_sent.add(tx_[i].size + tx_[i].rest_size);
  tx_.clear();
  tx_bytes_ = 0;
}

void Shard::send(const SwitchLiveness::Request& request) {
  if (request.size == 0) return;
  const TxFrame frame{request.bytes.data(), static_cast<uint32_t>(request.size), &session_.switch_endpoint};
  if (transport().send(&frame, 1) == 1) counters_.bytes_sent.add(request.size);
}

}  // namespace switchml
