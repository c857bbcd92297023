// Frames in a stream of bytes: each follows a prefix of 8 bytes that says how long it is [TCP-1]. Knows no sockets:
// the reader of the stream puts its bytes where this says.
#pragma once

#include <cstddef>
#include <cstdint>

namespace switchml {

inline constexpr size_t kStreamPrefixBytes = 8;

/// Writes the kStreamPrefixBytes that go ahead of a frame.
void write_stream_prefix(uint32_t frame_bytes, uint8_t* prefix);

/// Finds the frames where the stream's bytes lie. Bytes are moved only if a frame is cut by the end of its room; to
/// make that rare, worth_reading() asks for whole frames of the size of the last one.
///
/// Use: while needs_room(), use() some; put up to worth_reading() bytes to end() and feed() them; take next() until it
/// has none.
class StreamFrames {
 public:
  /// A frame has 1 to `max_frame_bytes`; whatever else is said breaks the stream.
  explicit StreamFrames(size_t max_frame_bytes) : max_frame_bytes_(max_frame_bytes) {}

  /// What is left of the room does not take the frame that comes next.
  bool needs_room() const;
  /// Room, of at least max_frame_bytes + kStreamPrefixBytes, for what comes next. The beginning of a frame that was cut
  /// moves there; the room before is not looked at any more.
  void use(uint8_t* room, size_t bytes);
  /// Nothing that was fed is left, not even a part of a frame: the room may be taken away by drop_room().
  bool is_empty() const { return begin_ == end_; }
  void drop_room();

  uint8_t* end() const { return room_ + end_; }
  size_t worth_reading() const;
  /// Bytes missing of the frame that has begun; 1 if none has, or its prefix is not whole.
  size_t missing() const;
  void feed(size_t bytes) { end_ += bytes; }

  /// The next whole frame, which stays where it is. False: there is none, or the stream is broken.
  bool next(const uint8_t** frame, uint32_t* bytes);
  bool has_next() const;
  /// Where a frame had to begin there was none: no byte from there on means anything.
  bool broken() const;

 private:
  static constexpr size_t kBroken = SIZE_MAX;
  size_t whole() const;
  size_t expected() const;

  size_t max_frame_bytes_;
  uint8_t* room_ = nullptr;
  size_t room_bytes_ = 0;
  size_t begin_ = 0;  // where the prefix of the next frame is
  size_t end_ = 0;    // where the bytes that were fed end
  size_t last_ = 0;   // bytes of the last frame and its prefix
};

}  // namespace switchml
