// Fuzzer inputs that stand for several packets, each with a sender and a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "wire/checksum.h"
#include "wire/control.h"
#include "wire/packet.h"

namespace switchml::fuzz {

/// Replaces the corpus' version by the current one, so that the corpus stays of use.
inline void become_current(std::vector<uint8_t>* frame) {
  constexpr int kCorpusVersion = 2;
  if (!frame->empty()) frame->front() ^= static_cast<uint8_t>((wire::kVersion ^ kCorpusVersion) << 4);
}

/// Appends the checksum, which cannot be guessed, to a control message of this version.
inline std::vector<uint8_t> sealed(std::vector<uint8_t> frame) {
  if (frame.size() < wire::kControlBytes || wire::version_of(frame.data()) != wire::kVersion) return frame;
  const auto kind = static_cast<wire::Kind>(wire::kind_of(frame.data()));
  if (kind != wire::Kind::kRequest && kind != wire::Kind::kReply) return frame;
  frame.resize(frame.size() + wire::kControlCheckBytes);
  wire::seal_control(frame.data(), frame.size() - wire::kControlCheckBytes);
  return frame;
}

/// One step: 5 bytes (what, from, time, size modulo 2048, its low byte first), then `size` bytes of a frame.
struct Step {
  uint8_t what = 0;
  uint8_t from = 0;
  uint8_t time = 0;
  std::vector<uint8_t> frame;

  /// Whether sealed() is to be left out.
  bool is_bare() const { return (from & 0x80) != 0; }
};

/// The next step of an input; false at its end. A frame that is cut short stays so.
inline bool next_step(const uint8_t** at, const uint8_t* end, Step* step) {
  if (end - *at < 5) return false;
  const uint8_t* head = *at;
  *at += 5;
  const size_t left = static_cast<size_t>(end - *at);
  const size_t wanted = (head[3] | size_t{head[4]} << 8) % 2048;
  const size_t size = wanted < left ? wanted : left;
  *step = {head[0], head[1], head[2], {*at, *at + size}};
  become_current(&step->frame);
  *at += size;
  return true;
}

/// Epochs, keys and cookies cannot be guessed, by a fuzzer either: writes those of a session into a frame that has room
/// for them.
inline void become_member(const wire::OpenReply& session, uint64_t cookie, std::vector<uint8_t>* frame) {
  using wire::Kind;
  using wire::Request;
  if (frame->empty()) return;
  const auto kind = static_cast<Kind>(wire::kind_of(frame->data()));
  if (kind == Kind::kContribution || kind == Kind::kResult) {
    if (frame->size() < wire::kHeaderBytes) return;
    wire::Header header = wire::read_header(frame->data());
    header.job = session.job;
    header.epoch = session.epoch;
    wire::write_header(header, frame->data());
    return;
  }
  if (kind != Kind::kRequest || frame->size() < wire::kControlBytes) return;
  uint8_t* body = frame->data() + wire::kControlBytes;
  const size_t bytes = frame->size() - wire::kControlBytes;
  const auto type = static_cast<Request>((*frame)[1]);
  if ((type == Request::kJoin || type == Request::kMeet) && bytes >= wire::kJoinBytes) {
    wire::Join join = wire::read_join(body);
    join.session_key = session.session_key, join.epoch = session.epoch, join.job = session.job;
    join.cookie = cookie;
    wire::write_join(join, body);
  } else if (type == Request::kClose && bytes >= wire::kCloseBytes) {
    wire::Close close = wire::read_close(body);
    close.session_key = session.session_key, close.epoch = session.epoch, close.job = session.job;
    wire::write_close(close, body);
  } else if (type == Request::kProbe && bytes >= wire::kProbeBytes) {
    wire::Probe probe = wire::read_probe(body);
    probe.epoch = session.epoch, probe.job = session.job;
    wire::write_probe(probe, body);
  }
}

}  // namespace switchml::fuzz
