// The life of a shard: submissions, failure, and the move from one switch to another in the middle of the streams. What
// makes that possible: sequence numbers belong to the group and not to the switch, a frame keeps its bytes while it is
// open, and no rank is more than one use ahead of another on a slot, so that the last result of each slot is all that
// another rank can lack.
#include "engine/shard.h"

#include <algorithm>

#include "base/assert.h"
#include "base/limits.h"
#include "base/log.h"
#include "engine/make_format.h"

namespace switchml {

namespace {

// Frames are laid out so that the payload, not the header, is aligned.
constexpr size_t kAlignment = 64;
size_t frame_stride(const SessionParameters& session) {
  return kAlignment + (session.payload_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Shard::Shard(int index, const EngineOptions& options, std::unique_ptr<Transport> transport, Time now,
             std::function<void(const Status&)> on_failure)
    : index_(index),
      options_(options),
      session_(options_.session),
      home_(std::move(transport)),
      link_(home_.get()),
      on_failure_(std::move(on_failure)),
      format_(make_format(session_, options_.keep_results, counters_)),
      lanes_(format_->lanes(), session_.slots_per_shard() * index, options_.first_seq),  // [SHARD-1]
      kept_(options_.keep_results ? lanes_.slots() : 0, session_.header_bytes() + session_.payload_bytes),
      retransmitter_(lanes_.slots(), options.rto_min, options.rto_max, now),
      window_(lanes_),
      liveness_(session_, index, options.switch_patience, options.on_switch_lost != nullptr, now) {
  SWITCHML_ASSERT(lanes_.slots() >= 2 && lanes_.slots() * session_.shards <= kMaxSlots);
  const size_t stride = frame_stride(session_), bytes = stride * static_cast<size_t>(lanes_.slots());
  uint8_t* frames = home_->allocate(bytes);
  for (int i = 0; i < lanes_.slots(); ++i) {
    lanes_.at(i).frame = frames + static_cast<size_t>(i) * stride + (kAlignment - session_.header_bytes());
  }
  for (const Lane& lane : lanes_) retransmitter_.add_lane(lane.pool);
  restart_window();
  tx_.reserve(kBurst);
  memory_bytes_ = bytes + home_->limits().held_bytes + kept_.memory_bytes() + format_->memory_bytes();
  if (session_.switch_endpoint.carrier == Carrier::kPlaces) introduce(now);  // [RDMA-16]
}

void Shard::restart_window() {
  const bool shares_links = options_.congestion_control && session_.switch_endpoint.carrier == Carrier::kPackets;
  window_.restart(shares_links ? session_.shards * static_cast<int>(options_.shares) : 0);
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
  if (when_woken_) when_woken_();
}

void Shard::when_woken(std::function<void()> call) {
  const std::lock_guard<std::mutex> lock(link_mutex_);
  when_woken_ = std::move(call);
}

bool Shard::step(Time now) {
  if (attention_.load(std::memory_order_acquire)) take_submissions(now);
  const bool received = receive(now);
  pump(now);
  expire(now);
  return received || attention_.load(std::memory_order_relaxed);
}

// Only while a stream of many chunks flows and keeps the links busy, and nothing of few chunks is under way.
Duration Shard::coalescing(Time now) {
  const uint64_t received = counters_.packets_received.get();
  const uint64_t gathered = received - gathered_at_;
  if (gathered == 0 || suspended_) return Duration(0);
  if (gathered_in_flight_ > 0) coalescing_.report(gathered, static_cast<uint64_t>(gathered_in_flight_), now);
  gathered_at_ = received;
  gathered_in_flight_ = 0;
  const int in_flight = lanes_.in_flight(Task::Stream::kBulk);
  if (in_flight < kFlow || tasks_.short_under_way() > 0) {
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
  for (Submission& submission : taken) {
    if (!status_.ok()) {
      submission.collective->finish(status_);
      continue;
    }
    tasks_.add(format_->begin(tasks_.next_serial(), std::move(submission.collective), submission.part,
                              submission.chunk_bytes));
  }
  if (!failure.ok()) fail(failure);
}

void Shard::fail(const Status& status) {
  SWITCHML_ASSERT(!status.ok());
  if (!status_.ok()) return;
  status_ = status;
  if (status.code() != Code::kAborted) SWITCHML_LOG(kInfo) << "shard " << index_ << ": " << status.to_string();
  tx_.clear();
  judge_repeats(false);
  retransmitter_.stop();
  // A switch might still write to the tensors of failed calls.
  if (in_place_) transport().queue_pairs()->disconnect(session_.switch_endpoint);
  tasks_.fail(status);
  on_failure_(status);
}

Time Shard::next_wakeup() const {
  if (!status_.ok()) return kNever;
  if (suspended_) return tasks_.deadline();
  const bool waits = lanes_.any_in_flight();
  const Time wakeup = std::min(liveness_.next_wakeup(waits), retransmitter_.next_deadline());
  return std::min({wakeup, tasks_.deadline(), waits ? next_look_ : kNever});
}

std::string Shard::missing_text(Time now) const {
  return suspended_ && !waiting_for_.empty() ? waiting_for_ : liveness_.missing_text(now);
}

void Shard::give_up_switch(const Status& status) {
  if (!options_.on_switch_lost) {
    fail(status);
    return;
  }
  suspend();
  options_.on_switch_lost(options_.share, status);
}

void Shard::suspend() {
  if (!status_.ok()) return;
  suspended_ = true;
  tx_.clear();
  tx_bytes_ = 0;
  retransmitter_.stop();
}

std::vector<uint32_t> Shard::accepted() const {
  std::vector<uint32_t> all;
  for (const Lane& lane : lanes_) {
    for (int i = 0; i < lane.pool.size(); ++i) all.push_back(lane.pool.accepted(i));
  }
  return all;
}

// What another rank has kept came under the session that this one still has, or it would not lack it.
void Shard::supply(const std::vector<uint8_t>& frame, Time now) {  // [MOVE-4]
  marked_ = false;
  if (status_.ok()) on_data({frame.data(), static_cast<uint32_t>(frame.size()), {}}, now);
}

void Shard::resume(const Route& route, std::unique_ptr<Transport> transport, Time now) {
  if (!status_.ok()) return;
  SWITCHML_ASSERT(suspended_);
  static_cast<Route&>(session_) = route;
  {
    const std::lock_guard<std::mutex> lock(link_mutex_);
    link_ = transport ? transport.get() : home_.get();
    away_.swap(transport);
  }
  transport.reset();  // the link before this one
  suspended_ = false;
  waiting_for_.clear();
  liveness_.restart(now);
  restart_window();
  if (session_.switch_endpoint.carrier == Carrier::kPlaces) introduce(now);
  lanes_.for_each_open([this, now](InFlight& flight) {
    format_->readdress(flight);
    flight.failed_checks = 0;
    retransmitter_.on_moved(flight.index);
    transmit(flight, now);
  });
  flush();
}

}  // namespace switchml
