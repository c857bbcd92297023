#include "switchd/batching_sink.h"

#include <algorithm>
#include <cstring>

namespace switchml {

namespace {

bool before(const Endpoint& a, const Endpoint& b) {
  if (a.size != b.size) return a.size < b.size;
  return std::memcmp(a.bytes, b.bytes, a.size) < 0;
}

}  // namespace

void BatchingSink::unicast(const uint8_t* frame, size_t size, const Endpoint& to) {
  if (size > kCopyBytes) {
    const TxFrame one{frame, static_cast<uint32_t>(size), &to};
    transport_.send(&one, 1);
    return;
  }
  pending_.push_back({to, copy(frame, size), static_cast<uint32_t>(size)});
}

void BatchingSink::multicast(const uint8_t* frame, size_t size, const Endpoint* const* to, size_t count) {
  if (size > kCopyBytes) {
    transport_.multicast(frame, static_cast<uint32_t>(size), to, count);
    return;
  }
  const size_t offset = copy(frame, size);
  for (size_t i = 0; i < count; ++i) pending_.push_back({*to[i], offset, static_cast<uint32_t>(size)});
}

void BatchingSink::flush() {
  if (pending_.empty()) return;
  // Stable: what one endpoint is sent stays in order.
  std::stable_sort(pending_.begin(), pending_.end(),
                   [](const Pending& a, const Pending& b) { return before(a.to, b.to); });
  frames_.clear();
  for (const Pending& p : pending_) frames_.push_back({bytes_.data() + p.offset, p.size, &p.to});
  transport_.send(frames_.data(), frames_.size());
  pending_.clear();
  bytes_.clear();
}

size_t BatchingSink::copy(const uint8_t* frame, size_t size) {
  const size_t offset = bytes_.size();
  bytes_.insert(bytes_.end(), frame, frame + size);
  return offset;
}

}  // namespace switchml
