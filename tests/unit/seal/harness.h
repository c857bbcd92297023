// What tests of backend/seal have in common: keys, numbers that look random, and an AEAD that remembers counters.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "seal/initiator.h"
#include "seal/responder.h"

namespace switchml::seal {

using Frame = std::vector<uint8_t>;

inline ByteView view_of(const Frame& frame) { return {frame.data(), frame.size()}; }
inline ByteView view_of(const GreetingFrame& frame) { return view(frame); }

inline SealKey key_of(uint8_t fill) {
  SealKey key;
  key.bytes.fill(fill);
  return key;
}
inline AeadKey aead_key_of(uint8_t fill) {
  AeadKey key;
  key.bytes.fill(fill);
  return key;
}

/// The same bytes for the same seed.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t bound) { return next() % bound; }
  void operator()(uint8_t* out, size_t size) {
    for (size_t i = 0; i < size; ++i) out[i] = static_cast<uint8_t>(next());
  }
  Frame bytes(size_t size) {
    Frame frame(size);
    (*this)(frame.data(), size);
    return frame;
  }

 private:
  uint64_t state_;
};

inline Tools tools_of(const SealKey& key, uint64_t seed) { return {GreetingKey(key), Numbers(seed), make_aes_gcm}; }

/// A request that is `size` bytes long.
inline Frame request_of(wire::Request type, size_t size = 48) {
  Frame frame(size, 7);
  wire::Control control;
  control.version = wire::kVersion;
  control.kind = static_cast<uint8_t>(wire::Kind::kRequest);
  control.type = static_cast<uint8_t>(type);
  wire::write_control(control, frame.data());
  return frame;
}
inline Frame join_of(uint32_t epoch) {
  Frame frame = request_of(wire::Request::kJoin);
  wire::Join join;
  join.epoch = epoch;
  wire::write_join(join, frame.data() + wire::kControlBytes);
  return frame;
}
inline Frame contribution_of(size_t size = 64) {
  Frame frame(size, 9);
  wire::Header header;
  header.version = wire::kVersion;
  header.kind = static_cast<uint8_t>(wire::Kind::kContribution);
  wire::write_header(header, frame.data());
  return frame;
}

/// Sealed by `sender`; empty: it refuses.
inline Frame sealed(SealedSender* sender, const Frame& plain) {
  Frame frame(plain.size() + kSealBytes);
  return sender->seal(view_of(plain), {}, frame.data()) ? frame : Frame();
}
inline Frame opened(const Frame& frame) {
  return Frame(frame.begin() + kFrontBytes, frame.end() - static_cast<ptrdiff_t>(kTagBytes));
}

}  // namespace switchml::seal
