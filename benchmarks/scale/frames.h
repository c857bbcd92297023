// Frames under way. A multicast one exists once; a lent one is not copied at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace switchml::scale {

struct Frame {
  const uint8_t* data = nullptr;
  uint32_t size = 0;
  uint32_t users = 0;
  std::unique_ptr<uint8_t[]> own;  // Null: the bytes are the sender's.
};

class Frames {
 public:
  explicit Frames(size_t most_bytes) : most_bytes_(most_bytes) {}

  /// A copy, with one user.
  Frame* copy_of(const uint8_t* data, size_t size) {
    Frame* frame = take(&copies_);
    if (frame->own == nullptr) frame->own.reset(new uint8_t[most_bytes_]);
    std::memcpy(frame->own.get(), data, size);
    return fill(frame, frame->own.get(), size);
  }
  /// A frame of the sender's bytes, which must not change while it has users.
  Frame* lent(const uint8_t* data, size_t size) { return fill(take(&lent_), data, size); }
  void release(Frame* frame) {
    if (--frame->users == 0) (frame->own != nullptr ? copies_ : lent_).push_back(frame);
  }

 private:
  Frame* take(std::vector<Frame*>* unused) {
    if (unused->empty()) {
      all_.push_back(std::make_unique<Frame>());
      return all_.back().get();
    }
    Frame* frame = unused->back();
    unused->pop_back();
    return frame;
  }
  static Frame* fill(Frame* frame, const uint8_t* data, size_t size) {
    frame->data = data;
    frame->size = static_cast<uint32_t>(size);
    frame->users = 1;
    return frame;
  }

  const size_t most_bytes_;
  std::vector<std::unique_ptr<Frame>> all_;
  std::vector<Frame*> copies_, lent_;  // Unused frames.
};

}  // namespace switchml::scale
