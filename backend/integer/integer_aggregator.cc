#include "integer/integer_aggregator.h"

#include <algorithm>
#include <cstring>

#include "kernels/kernels.h"

namespace switchml {

namespace {

// [SLOT-5, SLOT-11]
void take_over(const Arrival& arrival, SlotUse* use, int32_t* words) {
  use->kind = arrival.kind;
  use->check = arrival.check;
  kernels().store(words, arrival.payload, arrival.elements);
}

// [LEN-1]
void add_words(const Arrival& arrival, const SlotUse& use, int32_t* words) {
  const Kernels& kernels = switchml::kernels();
  const size_t common = std::min<size_t>(use.bytes / kWordBytes, arrival.elements);
  kernels.add(words, arrival.payload, common);
  if (arrival.elements > common) {
    kernels.store(words + common, arrival.payload + common * kWordBytes, arrival.elements - common);
  }
}

// [LEN-1]
void max_words(const Arrival& arrival, const SlotUse& use, int32_t* words) {
  const size_t known = use.bytes / kWordBytes;
  if (arrival.elements > known) std::memset(words + known, 0, (arrival.elements - known) * sizeof(int32_t));
  kernels().max(words, arrival.payload, arrival.elements);
  for (size_t i = arrival.elements; i < known; ++i) words[i] = std::max(words[i], 0);
}

// [SLOT-6, PKT-13]
void merge(const Arrival& arrival, SlotUse* use, int32_t* words) {
  const auto operation = static_cast<wire::Operation>(arrival.flags & wire::kOperationMask);
  (operation == wire::Operation::kMax ? max_words : add_words)(arrival, *use, words);
  use->kind = std::max(use->kind, arrival.kind);  // [PKT-10]
  use->check += arrival.check;                    // [PKT-12]
}

}  // namespace

wire::ParseError IntegerAggregator::parse(const uint8_t* frame, size_t size, bool is_result, Arrival* out) const {
  wire::DataPacket packet;
  const wire::Kind expected = is_result ? wire::Kind::kResult : wire::Kind::kContribution;
  const wire::ParseError error = wire::parse_data(frame, size, expected, &packet);
  if (error != wire::ParseError::kNone) return error;
  const wire::Header& header = packet.header;
  *out = arrival_of(header);
  out->kind = header.exponent;
  out->check = header.witness;
  out->payload = packet.payload;
  out->bytes = out->room = packet.words * kWordBytes;
  out->elements = packet.words;
  return error;
}

void IntegerAggregator::add(const Arrival& arrival, bool is_first, SlotUse* use, SlotStore* store) const {
  (is_first ? take_over : merge)(arrival, use, store->words(arrival.slot, arrival.seq));
  use->bytes = std::max(use->bytes, static_cast<uint32_t>(arrival.bytes));  // [LEN-2]
}

void IntegerAggregator::complete(const Arrival& last, SlotUse* use, SlotStore* store, wire::ChecksumRule,
                                 std::optional<uint8_t> uplink) const {
  const wire::Kind kind = uplink ? wire::Kind::kContribution : wire::Kind::kResult;
  auto header = outcome_of<wire::Header>(last, kind, uplink);  // [PKT-7]
  header.flags = last.flags & wire::kOperationMask;            // [PKT-4, PKT-5]
  header.exponent = use->kind;
  header.witness = use->check;
  uint8_t* payload = store->payload(last.slot, last.seq);
  wire::write_header(header, payload - wire::kHeaderBytes);
  // In place: a complete use takes no more words, so the sums in host order are not needed, and half the memory (and
  // cache) suffices.
  kernels().load(store->words(last.slot, last.seq), payload, use->bytes / kWordBytes);
  use->complete = true;
}

// An answer is not longer than the packet that asks for it, so it is no amplifier. [LOSS-2]
SwitchFrame IntegerAggregator::repeated_frame(const SlotUse& use, const uint8_t* payload, uint8_t, size_t asked,
                                              bool) const {
  const SwitchFrame whole = whole_frame(use, payload);
  return {whole.data, std::min(whole.size, asked)};
}

}  // namespace switchml
