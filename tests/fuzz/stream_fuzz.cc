// transport/stream_frames: however a stream arrives and whatever it says, its frames are those that lie in it, up to
// where one is none, and no byte outside of the room is touched.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "check.h"
#include "transport/stream_frames.h"

namespace switchml {
namespace {

using Bytes = std::vector<uint8_t>;

struct Stream {
  std::vector<Bytes> frames;
  bool broken = false;
};

/// What the protocol says, read from the stream as a whole.
Stream read_at_once(const Bytes& bytes, size_t max_frame_bytes) {
  Stream out;
  for (size_t at = 0; at + 8 <= bytes.size();) {
    const uint8_t* prefix = bytes.data() + at;
    const uint64_t size = uint64_t{prefix[4]} << 24 | prefix[5] << 16 | prefix[6] << 8 | prefix[7];
    const uint8_t start[] = {0x53, 1, 0, 0};
    out.broken = std::memcmp(prefix, start, sizeof start) != 0 || size == 0 || size > max_frame_bytes;
    if (out.broken || at + 8 + size > bytes.size()) break;
    out.frames.emplace_back(prefix + 8, prefix + 8 + size);
    at += 8 + size;
  }
  return out;
}

/// Bytes arrive as the first byte of what is left says, in turns with the second.
Stream read_in_pieces(const Bytes& bytes, size_t max_frame_bytes, size_t room_bytes, const uint8_t sizes[2]) {
  Stream out;
  StreamFrames in(max_frame_bytes);
  std::unique_ptr<uint8_t[]> room;
  size_t turn = 0;
  for (size_t at = 0; at < bytes.size() && !in.broken();) {
    if (in.needs_room()) {
      std::unique_ptr<uint8_t[]> next(new uint8_t[room_bytes]);
      in.use(next.get(), room_bytes);
      room = std::move(next);
    }
    const size_t worth = in.worth_reading();
    fuzz::check(worth > 0, "there is something to read");
    fuzz::check(in.end() + worth <= room.get() + room_bytes, "and room for it");
    const size_t size = std::min({worth, bytes.size() - at, size_t{1} + sizes[turn++ % 2] * size_t{3}});
    std::copy_n(bytes.data() + at, size, in.end());
    in.feed(size);
    at += size;
    const uint8_t* frame = nullptr;
    for (uint32_t length = 0; in.next(&frame, &length);) out.frames.emplace_back(frame, frame + length);
    fuzz::check(!in.has_next(), "all were taken");
    if (in.is_empty()) in.drop_room();
  }
  out.broken = in.broken();
  return out;
}

}  // namespace
}  // namespace switchml

// Six bytes (the largest frame less 1, room beyond the least, sizes of what arrives), then the stream.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace switchml;
  if (size < 6) return 0;
  const size_t max_frame_bytes = 1 + (bytes[0] | size_t{bytes[1]} << 8) % 1500;
  const size_t room_bytes = max_frame_bytes + kStreamPrefixBytes + (bytes[2] | size_t{bytes[3]} << 8) % 4000;
  const Bytes stream(bytes + 6, bytes + size);
  const Stream expected = read_at_once(stream, max_frame_bytes);
  const Stream got = read_in_pieces(stream, max_frame_bytes, room_bytes, bytes + 4);
  fuzz::check(got.frames == expected.frames, "the frames are those of the stream");
  fuzz::check(got.broken == expected.broken, "and so is its end");
  return 0;
}
