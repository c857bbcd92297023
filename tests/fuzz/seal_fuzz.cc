// transport/sealed_link: whatever arrives, an end takes only what the other one has sent.
#include <algorithm>
#include <deque>
#include <set>
#include <vector>

#include "check.h"
#include "transport/frame_memory.h"
#include "transport/sealed_link.h"

namespace switchml {
namespace {

using Bytes = std::vector<uint8_t>;
constexpr size_t kMostFrame = 2048;

/// A network that loses nothing and keeps what it has carried.
class Wire final : public Transport {
 public:
  explicit Wire(uint8_t number) { local_.bytes[0] = number, local_.size = 1; }
  void connect(Wire* other) { other_ = other; }
  void put(Bytes frame) { inbox_.push_back(std::move(frame)); }

  const char* name() const override { return "wire"; }
  TransportLimits limits() const override { return {kMostFrame, 0, 0}; }
  Endpoint local() const override { return local_; }
  size_t path_frame_bytes(const Endpoint&) const override { return kMostFrame; }
  uint8_t* allocate(size_t bytes) override { return memory_.allocate(bytes); }
  size_t send(const TxFrame* frames, size_t count) override {
    for (size_t i = 0; i < count; ++i) {
      sent.emplace_back(frames[i].data, frames[i].data + frames[i].size);
      if (carries) other_->put(sent.back());
    }
    return count;
  }
  // Each frame in a block of its own size: what reads or writes beyond it shows.
  size_t receive(RxFrame* frames, size_t count) override {
    size_t n = 0;
    for (; n < count && !inbox_.empty(); ++n) {
      lent_.push_back(std::move(inbox_.front()));
      inbox_.pop_front();
      lent_.back().shrink_to_fit();
      frames[n] = {lent_.back().data(), static_cast<uint32_t>(lent_.back().size()), other_->local_};
    }
    return n;
  }
  void release() override { lent_.clear(); }
  void wait(Duration) override {}
  void wake() override {}
  std::string take_error() override { return {}; }

  std::vector<Bytes> sent;
  bool carries = true;

 private:
  Endpoint local_;
  Wire* other_ = nullptr;
  FrameMemory memory_;
  std::deque<Bytes> inbox_;
  std::deque<Bytes> lent_;
};

struct End {
  End(uint8_t number, SealEnd kind) : wire(new Wire(number)) {
    SealOptions options;
    // The same keys for the same input.
    options.random = [state = uint64_t{number}](uint8_t* out, size_t size) mutable {
      for (size_t i = 0; i < size; ++i) out[i] = static_cast<uint8_t>((state = state * 6364136223846793005U + 1) >> 56);
    };
    link = seal_link(std::unique_ptr<Transport>(wire), SealKey(), kind, options);
  }
  void send(const Bytes& frame, const End& to, bool tell) {
    const Endpoint endpoint = to.link->local();
    const TxFrame out{frame.data(), static_cast<uint32_t>(frame.size()), &endpoint};
    wire->carries = tell;
    link->send(&out, 1);
    wire->carries = true;
    meant.insert(frame);
  }
  /// Takes all that has come; the other end must have meant it. What waited for a channel may come twice.
  void take(const End& other) {
    RxFrame frames[4];
    for (size_t n = 0; (n = link->receive(frames, 4)) > 0; link->release()) {
      for (size_t i = 0; i < n; ++i) {
        const Bytes taken(frames[i].data, frames[i].data + frames[i].size);
        fuzz::check(other.meant.count(taken) > 0, "what is taken was sent");
      }
    }
  }

  Wire* wire;
  std::unique_ptr<Transport> link;
  std::set<Bytes> meant;
};

/// A frame of an end's, or bytes of the input's own; the input changes it.
Bytes injected(const std::vector<Bytes>& seen, const uint8_t* head, const uint8_t* bytes, size_t size) {
  if (seen.empty() || (head[0] & 4) != 0) return {bytes, bytes + size};
  Bytes frame = seen[seen.size() - 1 - head[1] % seen.size()];
  if ((head[0] & 8) != 0) frame.resize(head[2]);
  for (size_t i = 0; i + 1 < size && !frame.empty(); i += 2) {
    uint8_t& byte = frame[bytes[i] % frame.size()];
    byte = static_cast<uint8_t>(byte ^ bytes[i + 1]);
  }
  return frame;
}

}  // namespace
}  // namespace switchml

// Steps of 4 bytes (what, which frame, a length, how many bytes follow), and these bytes. Bits of `what`: 1 to the
// switch, 2 a frame that an end sends, else one that is put into the network: 4 of the bytes, 8 cut or made longer,
// 16 one that the receiver has sent itself; 32 a frame of an end's is lost.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace switchml;
  End member(1, SealEnd::kMember), at_switch(2, SealEnd::kSwitch);
  member.wire->connect(at_switch.wire);
  at_switch.wire->connect(member.wire);
  const uint8_t* const end = bytes + size;
  while (end - bytes >= 4) {
    const uint8_t* const head = bytes;
    bytes += 4;
    const size_t follow = std::min<size_t>(head[3], static_cast<size_t>(end - bytes));
    const bool up = (head[0] & 1) != 0;
    End& from = up ? member : at_switch;
    End& to = up ? at_switch : member;
    if ((head[0] & 2) != 0) {
      Bytes frame(bytes, bytes + follow);
      frame.push_back(static_cast<uint8_t>(from.meant.size()));
      if (!up) frame[0] = static_cast<uint8_t>(wire::kVersion << 4 | static_cast<int>(wire::Kind::kResult));
      from.send(frame, to, (head[0] & 32) == 0);
    } else {
      const End& seen = (head[0] & 16) != 0 ? to : from;
      to.wire->put(injected(seen.wire->sent, head, bytes, follow));
    }
    bytes += follow;
    to.take(from);
    from.take(to);
  }
  return 0;
}
