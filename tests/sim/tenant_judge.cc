// What is right, and what may be forgiven in which session.
#include <algorithm>
#include <cstring>

#include "oracle.h"
#include "tenant.h"

namespace switchml::sim {

void Tenant::judge(size_t worker, size_t index, const Status& status, const uint8_t* output) {
  record_->note("job" + std::to_string(options_.number) + ".rank" + std::to_string(worker) + ": collective " +
                std::to_string(index) + " " + (status.ok() ? "ok" : status.to_string()));
  if (!status.ok()) {
    record_->count(Fault::errors);
    return judge_error(worker, index, status);
  }
  // One after it may: it can be through before the mismatch is found.
  if (mismatch_at_ >= 0 && index == static_cast<size_t>(mismatch_at_)) {
    return record_->broken(Rule::kResult, "a collective that ranks called differently succeeded");
  }
  record_->count(Fault::collectives);
  if (!known_[index]) {
    expected_[index] = expected_result(program_[index], options_.workers, packets());
    known_[index] = true;
  }
  const Call& call = program_[index];
  const ElementRange wanted = call.wanted(static_cast<int>(worker), options_.workers);
  const size_t size = result_bytes(call.op, call.type);
  const auto want = expected_[index].begin() + static_cast<ptrdiff_t>(wanted.begin * size);
  const auto end = want + static_cast<ptrdiff_t>(wanted.count * size);
  const auto wrong = std::mismatch(want, end, output).first;
  if (call.movement != Movement::kNone) record_->count(Fault::moved);
  if (call.op == ReduceOp::kSumToFloat32) record_->count(Fault::narrow_sums);
  if (partial_sum_ranks_ > 0 && has_partial_sums(call.op, call.type)) record_->count(Fault::partial_sums);
  if (wrong == end) return;
  const auto at = static_cast<size_t>(wrong - want);
  record_->broken(Rule::kResult, "wrong result: rank " + std::to_string(worker) + ", collective " +
                                     std::to_string(index) + " (" + call.title + ", " + to_string(call.op) + ", " +
                                     to_string(call.type) + ", " + std::to_string(call.count) + " elements), element " +
                                     std::to_string(wanted.begin + at / size));
}

void Tenant::judge_error(size_t worker, size_t index, const Status& status) {
  const std::string what =
      "rank " + std::to_string(worker) + ", collective " + std::to_string(index) + ": " + status.to_string();
  const bool names =
      status.message().find("rank") != std::string::npos || status.message().find("switch") != std::string::npos;
  if (!names) record_->broken(Rule::kError, "an error that names neither a rank nor the switch: " + what);
  if (tainted_) return;
  if (status.code() == Code::kMismatch && mismatch_at_ < 0) {
    return record_->broken(Rule::kWitness, "a mismatch though the calls agree and nothing was damaged: " + what);
  }
  if (disturbed_) return;
  if (mismatch_at_ < 0) return record_->broken(Rule::kError, "an error without a reason: " + what);
  // Who has heard of the mismatch may have left before others have.
  const bool left = !lingers_ && status.message().find("left the session") != std::string::npos;
  if (status.code() != Code::kMismatch && !left) record_->broken(Rule::kError, "not the error of a mismatch: " + what);
}

// Where words of a user's maximum are altered, nothing tells (docs/protocol.md, The witness).
bool Tenant::is_open_to_damage(const wire::DataPacket& packet) const {
  const LaneSlots lanes = session_.lanes_per_shard();
  const int index = packet.header.slot % session_.slots_per_shard();
  const int bulk = lanes.calls + lanes.data;
  const bool call_lane = index < lanes.calls || (index >= bulk && index < bulk + lanes.bulk_calls);
  return call_lane || packet.operation == wire::Operation::kSum;
}

// The witness tells one altered word of a use for certain, several with a probability that depends on the bits.
bool Tenant::damage_may_hit(const wire::Header& header, bool in_words) {
  const bool contribution = header.kind == static_cast<uint8_t>(wire::Kind::kContribution);
  if (in_words && contribution && words_damaged_) return false;
  words_damaged_ |= in_words && contribution;
  tainted_ = true;
  return true;
}

}  // namespace switchml::sim
