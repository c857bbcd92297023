#include "transport/stream_frames.h"

#include <cstring>

namespace switchml {

namespace {

constexpr uint8_t kMagic = 0x53;
constexpr uint8_t kStreamVersion = 1;

}  // namespace

void write_stream_prefix(uint32_t frame_bytes, uint8_t* prefix) {  // [TCP-1]
  prefix[0] = kMagic;
  prefix[1] = kStreamVersion;
  prefix[2] = 0;
  prefix[3] = 0;
  for (int i = 0; i < 4; ++i) prefix[4 + i] = static_cast<uint8_t>(frame_bytes >> (24 - 8 * i));
}

/// Bytes of the frame that comes next with its prefix; 0 while the prefix is not whole, kBroken if it is none.
size_t StreamFrames::whole() const {
  if (end_ - begin_ < kStreamPrefixBytes) return 0;
  const uint8_t* prefix = room_ + begin_;
  uint32_t bytes = 0;
  for (int i = 4; i < 8; ++i) bytes = bytes << 8 | prefix[i];
  const bool known = prefix[0] == kMagic && prefix[1] == kStreamVersion && prefix[2] == 0 && prefix[3] == 0;
  return known && bytes >= 1 && bytes <= max_frame_bytes_ ? kStreamPrefixBytes + bytes : kBroken;  // [TCP-2]
}

/// What whole() will say, as far as one can tell.
size_t StreamFrames::expected() const {
  const size_t known = whole();
  if (known != 0 && known != kBroken) return known;
  return last_ != 0 ? last_ : kStreamPrefixBytes;
}

bool StreamFrames::needs_room() const { return room_ == nullptr || room_bytes_ - begin_ < expected(); }

void StreamFrames::use(uint8_t* room, size_t bytes) {
  const size_t cut = end_ - begin_;
  if (cut != 0) std::memcpy(room, room_ + begin_, cut);
  room_ = room;
  room_bytes_ = bytes;
  begin_ = 0;
  end_ = cut;
}

void StreamFrames::drop_room() {
  room_ = nullptr;
  room_bytes_ = begin_ = end_ = 0;
}

size_t StreamFrames::worth_reading() const {
  const size_t frame = expected();
  return (room_bytes_ - begin_) / frame * frame - (end_ - begin_);
}

size_t StreamFrames::missing() const {
  const size_t frame = whole();
  return frame == 0 || frame == kBroken || frame <= end_ - begin_ ? 1 : frame - (end_ - begin_);
}

bool StreamFrames::next(const uint8_t** frame, uint32_t* bytes) {
  if (!has_next()) return false;
  last_ = whole();
  *frame = room_ + begin_ + kStreamPrefixBytes;
  *bytes = static_cast<uint32_t>(last_ - kStreamPrefixBytes);
  begin_ += last_;
  return true;
}

bool StreamFrames::has_next() const {
  const size_t bytes = whole();
  return bytes != 0 && bytes != kBroken && bytes <= end_ - begin_;
}

bool StreamFrames::broken() const { return whole() == kBroken; }

}  // namespace switchml
