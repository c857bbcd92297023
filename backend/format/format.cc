#include "format/format.h"

#include "format/call_mask.h"

namespace switchml {

Format::Format(const SessionParameters& session, WorkerCounters& counters)
    : session_(session), counters_(counters), key_{session.secret[0], session.secret[1]}, nonce_(session.epoch) {}

uint32_t Format::call_of(const InFlight& flight, uint64_t exponents_hash) const {
  const Collective& collective = flight.task->collective();
  MaskInput mask;
  mask.epoch = nonce_;
  mask.seq = flight.seq;
  mask.slot = flight.slot;
  mask.op = static_cast<uint8_t>(collective.op);
  mask.type = static_cast<uint8_t>(collective.type);
  mask.stage = static_cast<uint8_t>(flight.stage);
  mask.count = collective.count;
  mask.first = flight.range.begin;
  mask.exponents_hash = exponents_hash ^ flight.task->agreed;  // [WIT-12]
  return call_mask(key_, mask);
}

TxFrame Format::frame_of(const InFlight& flight, bool is_repeat) const {
  const auto size = static_cast<uint32_t>(session_.header_bytes() + flight.sent_bytes);
  TxFrame frame{flight.frame, size, &session_.switch_endpoint};
  frame.may_change = is_repeat;  // the first one may be answered before this one has left
  return frame;
}

}  // namespace switchml
