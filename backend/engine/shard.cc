#include "engine/shard.h"

#include <algorithm>

#include "base/assert.h"
#include "base/limits.h"
#include "base/log.h"

namespace switchml {

namespace {

constexpr size_t kSuperblocks = 4;

// Frames are laid out so that the words, not the header, are aligned.
constexpr size_t kAlignment = 64;
size_t frame_stride(const SessionParameters& session) {
  return kAlignment + (session.payload_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Shard::Shard(int index, const EngineOptions& options, std::unique_ptr<Transport> transport, Time now,
             std::function<void(const Status&)> on_failure)
    : index_(index),
      nonce_(options.session.epoch),  // [MOVE-1]
      options_(options),
      session_(options_.session),
      home_(std::move(transport)),
      link_(home_.get()),
      on_failure_(std::move(on_failure)),
      witness_(session_.secret[0], session_.secret[1], session_.native ? 0 : session_.payload_bytes / kWordBytes),
      retransmitter_(session_.slots_per_shard(), options.rto_min, options.rto_max, now),
      liveness_(session_, index, options.switch_patience, options.on_switch_lost != nullptr, now) {
  const int slots = session_.slots_per_shard();
  SWITCHML_ASSERT(slots >= 2 && slots * session_.shards <= kMaxSlots);
  const size_t stride = frame_stride(session_);
  uint8_t* frames = home_->allocate(stride * static_cast<size_t>(slots));
  in_flight_.resize(static_cast<size_t>(slots));
  for (size_t i = 0; i < in_flight_.size(); ++i) {
    in_flight_[i].index = static_cast<int>(i);
    in_flight_[i].frame = frames + i * stride + (kAlignment - session_.header_bytes());
  }
  make_lanes(slots * index);  // [SHARD-1]
  make_window();
  tx_.reserve(kBurst);
  if (options_.keep_results) {
    kept_.resize((session_.header_bytes() + session_.payload_bytes) * static_cast<size_t>(slots));
    kept_size_.resize(static_cast<size_t>(slots));
  }
  memory_bytes_ = stride * static_cast<size_t>(slots) + home_->limits().held_bytes + kept_.size();
  for (const Stream& stream : streams_) memory_bytes_ += stream.ring.memory_bytes();
  if (session_.switch_endpoint.carrier == Carrier::kPlaces) introduce(now);  // [RDMA-16]
}

void Shard::make_lanes(int first_slot) {
  const LaneSlots shares = session_.lanes_per_shard();
  int first_index = 0;
  for (const int size : {shares.calls, shares.data, shares.bulk_calls, shares.bulk_data}) {  // [LANE-1]
    if (size == 0) continue;
    const int number = static_cast<int>(lanes_.size());
    lanes_.emplace_back(number, first_slot + first_index, size, first_index, options_.first_seq);
    for (int i = 0; i < size; ++i) in_flight_[static_cast<size_t>(first_index + i)].lane = number;
    first_index += size;
  }
  for (const Lane& lane : lanes_) retransmitter_.add_lane(lane.pool);
  make_streams(shares);
}

void Shard::make_streams(const LaneSlots& shares) {
  const bool has_bulk = shares.has_bulk();
  if (session_.native) {
    streams_.emplace_back(Task::Stream::kShort, 0, 0, SuperblockRing(0, 0, 0));
    if (has_bulk) streams_.emplace_back(Task::Stream::kBulk, 1, 1, SuperblockRing(0, 0, 0));
    return;
  }
  const size_t payload = session_.payload_bytes;
  const size_t blocks = ChunkPlan::max_superblock_blocks(payload);
  const size_t elements = ChunkPlan::max_superblock_elements(payload);
  const size_t few = std::min(elements, static_cast<size_t>(shares.data) * (payload / kWordBytes));
  streams_.emplace_back(Task::Stream::kShort, 0, 1, SuperblockRing(kSuperblocks, blocks, has_bulk ? few : elements));
  if (has_bulk) streams_.emplace_back(Task::Stream::kBulk, 2, 3, SuperblockRing(kSuperblocks, blocks, elements));
}

Lane& Shard::lane_of(uint16_t slot) {
  for (Lane& lane : lanes_) {
    if (lane.pool.contains(slot)) return lane;
  }
  return lanes_[0];
}

bool Shard::any_in_flight() const {
  return std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.pool.in_flight() > 0; });
}

void Shard::submit(std::shared_ptr<SharedCollective> collective, ElementRange part, size_t chunk_bytes) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    submitted_.push_back({std::move(collective), part, chunk_bytes == 0 ? session_.payload_bytes : chunk_bytes});
    attention_.store(true, std::memory_order_release);
  }
  wake();
}

void Shard::post(std::function<void(Time)> call) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    posted_.push_back(std::move(call));
    attention_.store(true, std::memory_order_release);
  }
  wake();
}

void Shard::request_failure(const Status& status) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (requested_failure_.ok()) requested_failure_ = status;
    attention_.store(true, std::memory_order_release);
  }
  wake();
}

void Shard::wake() {
  const std::lock_guard<std::mutex> lock(link_mutex_);
  link_->wake();
}

bool Shard::step(Time now) {
  if (attention_.load(std::memory_order_acquire)) take_submissions(now);
  const bool received = receive(now);
  pump(now);
  expire(now);
  return received || attention_.load(std::memory_order_relaxed);
}

// Only while a stream of many chunks flows, whose rest keeps the links busy, and nothing of few chunks is under way.
Duration Shard::coalescing(Time now) {
  const uint64_t received = counters_.packets_received.get();
  const uint64_t gathered = received - gathered_at_;
  if (gathered == 0 || suspended_ || streams_.size() < 2) return Duration(0);
  if (gathered_in_flight_ > 0) coalescing_.report(gathered, static_cast<uint64_t>(gathered_in_flight_), now);
  gathered_at_ = received;
  gathered_in_flight_ = 0;
  const int in_flight = data_of(streams_[1]).pool.in_flight();
  if (in_flight < kFlow || short_under_way_ > 0) {
    coalescing_.forget_pause();
    return Duration(0);
  }
  const Duration pause = std::min(coalescing_.pause(now), next_wakeup() - now);
  if (pause > Duration(0)) {
    gathered_in_flight_ = in_flight;
  } else {
    coalescing_.forget_pause();
  }
  return pause;
}

void Shard::take_submissions(Time now) {
  std::vector<Submission> taken;
  std::vector<std::function<void(Time)>> tasks;
  Status failure;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    tasks.swap(posted_);
    taken.swap(submitted_);
    failure = requested_failure_;
    attention_.store(false, std::memory_order_release);
  }
  for (const auto& task : tasks) task(now);
  if (!any_in_flight()) liveness_.on_idle(now);
  for (Submission& submission : taken) {
    if (!status_.ok()) {
      submission.collective->finish(status_);
      continue;
    }
    earliest_deadline_ = std::min(earliest_deadline_, submission.collective->collective().deadline);
    const uint64_t serial = first_serial_ + tasks_.size();
    tasks_.push_back(std::make_unique<Task>(serial, std::move(submission.collective), submission.part, session_,
                                            submission.chunk_bytes));
    if (!tasks_.back()->is_bulk()) ++short_under_way_;
  }
  if (!failure.ok()) fail(failure);
}

Task* Shard::task_at(uint64_t serial) {
  if (serial < first_serial_ || serial - first_serial_ >= tasks_.size()) return nullptr;
  return tasks_[serial - first_serial_].get();
}

InFlight* Shard::oldest(const Lane& lane) {
  const int index = lane.pool.oldest_open();
  return index < 0 ? nullptr : &in_flight_[static_cast<size_t>(lane.first_index + index)];
}

// A barrier completes after everything before it, unless the caller keeps the order of the streams' parts; all others
// as soon as they can.
void Shard::on_task_progress(Task& task) {
  if (task.finished || !task.complete()) return;
  if (!std::exchange(task.was_complete, true) && !task.is_bulk()) --short_under_way_;
  if (task.collective().op != ReduceOp::kBarrier || task.collective().stream != StreamChoice::kByLength) {
    task.finished = true;
    task.shared->finish(Status());
  }
  finish_tasks();
}

void Shard::finish_tasks() {
  while (!tasks_.empty()) {
    Task& front = *tasks_.front();
    if (!front.finished) {
      if (!front.complete()) break;
      front.shared->finish(Status());
    }
    tasks_.pop_front();
    ++first_serial_;
  }
  for (Stream& stream : streams_) {
    stream.call_cursor = std::max(stream.call_cursor, first_serial_);
    stream.data_cursor = std::max(stream.data_cursor, first_serial_);
  }
  if (tasks_.empty()) earliest_deadline_ = kNever;
}

void Shard::fail(const Status& status) {
  SWITCHML_ASSERT(!status.ok());
  if (!status_.ok()) return;
  status_ = status;
  if (status.code() != Code::kAborted) SWITCHML_LOG(kInfo) << "shard " << index_ << ": " << status.to_string();
  tx_.clear();
  judge_repeats(false);
  retransmitter_.stop();
  // Whose tensors a switch might still write to.
  if (in_place_) transport().forget(session_.switch_endpoint);
  for (auto& task : tasks_) {
    if (!task->finished) task->shared->finish(status);
  }
  tasks_.clear();
  short_under_way_ = 0;
  on_failure_(status);
}

Time Shard::next_wakeup() const {
  if (!status_.ok()) return kNever;
  if (suspended_) return tasks_.empty() ? kNever : earliest_deadline_;
  Time wakeup = std::min(liveness_.next_wakeup(any_in_flight()), retransmitter_.next_deadline());
  if (any_in_flight()) wakeup = std::min(wakeup, next_look_);
  return tasks_.empty() ? wakeup : std::min(wakeup, earliest_deadline_);
}

}  // namespace switchml
