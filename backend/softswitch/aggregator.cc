#include "softswitch/aggregator.h"

#include <algorithm>
#include <cstring>

#include "quant/kernels.h"

namespace switchml::softswitch {

namespace {

// [LEN-1]
void add_words(SlotUse* use, int32_t* words, const wire::DataPacket& packet, const quant::Kernels& kernels) {
  const size_t common = std::min<size_t>(use->bytes / kWordBytes, packet.words);
  kernels.add(words, packet.payload, common);
  if (packet.words > common) {
    kernels.store(words + common, packet.payload + common * kWordBytes, packet.words - common);
  }
}

// [LEN-1]
void max_words(SlotUse* use, int32_t* words, const wire::DataPacket& packet, const quant::Kernels& kernels) {
  const size_t known = use->bytes / kWordBytes;
  if (packet.words > known) std::memset(words + known, 0, (packet.words - known) * sizeof(int32_t));
  kernels.max(words, packet.payload, packet.words);
  for (size_t i = packet.words; i < known; ++i) words[i] = std::max(words[i], 0);
}

}  // namespace

void take_over(SlotUse* use, int32_t* words, const wire::DataPacket& packet) {  // [SLOT-5, SLOT-11]
  use->contributed = WorkerSet{};
  use->asked_again = WorkerSet{};
  use->contributed.insert(packet.header.worker);
  use->complete = false;
  use->exponent = packet.header.exponent;
  use->witness = packet.header.witness;
  use->bytes = static_cast<uint32_t>(packet.words * kWordBytes);
  quant::kernels().store(words, packet.payload, packet.words);
}

void merge(SlotUse* use, int32_t* words, const wire::DataPacket& packet) {  // [SLOT-6, PKT-13]
  const quant::Kernels& kernels = quant::kernels();
  if (packet.operation == wire::Operation::kMax) {
    max_words(use, words, packet, kernels);
  } else {
    add_words(use, words, packet, kernels);
  }
  use->exponent = std::max(use->exponent, packet.header.exponent);                      // [PKT-10]
  use->witness += packet.header.witness;                                                // [PKT-12]
  use->bytes = std::max(use->bytes, static_cast<uint32_t>(packet.words * kWordBytes));  // [LEN-2]
}

size_t complete(SlotUse* use, int32_t* words, const wire::DataPacket& last, const Outcome& outcome) {
  wire::Header header = last.header;
  header.kind = static_cast<uint8_t>(outcome.kind);
  header.worker = outcome.worker;                           // [PKT-7, TREE-5]
  header.flags = last.header.flags & wire::kOperationMask;  // [PKT-4, PKT-5]
  header.exponent = use->exponent;
  header.witness = use->witness;
  auto* payload = reinterpret_cast<uint8_t*>(words);
  wire::write_header(header, payload - wire::kHeaderBytes);
  // In place: nothing is added to a complete use, so the sums in host order are needed no more, and half the memory
  // (and cache) suffices.
  quant::kernels().load(words, payload, use->bytes / kWordBytes);
  use->complete = true;
  return wire::kHeaderBytes + use->bytes;
}

bool asks_for_all(SlotUse* use, uint8_t worker, const WorkerSet& members) {
  const bool first = use->asked_again == WorkerSet{} || use->asked_again.test(worker);
  if (first) use->asked_again = WorkerSet{};
  use->asked_again.insert(worker);
  return first || use->asked_again == members;
}

void mark_repeated(uint8_t* frame) {
  static_assert(wire::kHeaderOffsetFlags == wire::kNativeHeaderOffsetFlags);
  frame[wire::kHeaderOffsetFlags] |= wire::kFlagRepeat;
}

}  // namespace switchml::softswitch
