#include "stream_watch.h"

#include "slot_frame.h"

namespace switchml::sim {

StreamWatch::StreamWatch(const SessionParameters& session, int shard, uint32_t first_seq)
    : job_(session.job),
      epoch_(session.epoch),
      worker_(static_cast<uint8_t>(session.worker)),
      exact_(session.exact),
      first_slot_(session.slots_per_shard() * shard),
      first_seq_(first_seq),
      uses_(static_cast<size_t>(session.slots_per_shard())) {}

std::string StreamWatch::sent(const uint8_t* frame, size_t size) {
  if (wire::kind_of(frame) == static_cast<uint8_t>(wire::Kind::kRequest)) return {};
  const auto seen = slot_frame(frame, size);
  if (!seen || seen->result || seen->exact != exact_) return "a worker sends a malformed contribution";
  const SlotFrame& h = *seen;
  const int index = h.slot - first_slot_;
  if (h.job != job_ || h.epoch != epoch_ || h.worker != worker_ || index < 0 ||
      index >= static_cast<int>(uses_.size())) {
    return "a contribution with another's job, epoch, worker or slot";
  }
  const uint64_t hash = hash_of_contents(frame, size, h);
  Use& use = uses_[static_cast<size_t>(index)];
  if (h.seq != use.seq) return open(&use, h.slot, h.seq, hash);
  return hash == use.hash ? "" : "slot " + std::to_string(h.slot) + " is sent again with other bytes";
}

std::string StreamWatch::open(Use* use, uint16_t slot, uint32_t seq, uint64_t hash) {
  const uint32_t next = use->seq == 0 ? first_seq_ : use->seq == 0xffffffffU ? 2 : use->seq + 1;
  if (seq != next) {
    return "slot " + std::to_string(slot) + " goes from use " + std::to_string(use->seq) + " to " + std::to_string(seq);
  }
  if (use->seq != 0 && !use->answered) {
    return "slot " + std::to_string(slot) + " opens use " + std::to_string(seq) +
           " before a result of the last one came";
  }
  wrapped_ |= seq < use->seq;
  *use = {seq, hash, false};
  ++opened_;
  return {};
}

void StreamWatch::taken(const uint8_t* frame, size_t size) {
  const auto seen = slot_frame(frame, size);
  if (!seen || !seen->result || seen->exact != exact_) return;
  const SlotFrame& h = *seen;
  const int index = h.slot - first_slot_;
  if (h.job != job_ || h.epoch != epoch_ || index < 0 || index >= static_cast<int>(uses_.size())) return;
  Use& use = uses_[static_cast<size_t>(index)];
  use.answered |= h.seq == use.seq;
}

void StreamWatch::supplied(uint16_t slot, uint32_t seq) {
  const int index = slot - first_slot_;
  if (index < 0 || index >= static_cast<int>(uses_.size())) return;
  Use& use = uses_[static_cast<size_t>(index)];
  use.answered |= seq == use.seq;
}

void StreamWatch::move(uint8_t job, uint32_t epoch) {
  job_ = job;
  epoch_ = epoch;
}

std::string StreamWatch::check(uint64_t chunks_completed) const {
  if (chunks_completed > opened_) return "more results were accepted than uses opened";
  if (opened_ - chunks_completed > uses_.size()) return "more uses are open than there are slots";
  return {};
}

}  // namespace switchml::sim
