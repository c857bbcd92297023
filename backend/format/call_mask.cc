#include "format/call_mask.h"

#include "format/packed_hash.h"

namespace switchml {

uint32_t call_mask(const SipKey& key, const MaskInput& input) {  // [WIT-11, WIT-12]
  const uint64_t hash = PackedHash<38>()
                            .put(kTagPad)
                            .put(input.epoch)
                            .put(input.seq)
                            .put(input.slot)
                            .put(input.op)
                            .put(input.type)
                            .put(input.stage)
                            .put(input.count)
                            .put(input.first)
                            .put(input.exponents_hash)
                            .hash(key);
  return static_cast<uint32_t>(hash);
}

}  // namespace switchml
