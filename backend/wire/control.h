// Builds the control requests that a member of a session sends, and views the replies. Used by the engine (lease,
// probes) and by the session layer (open, join, close); the switch has its own reading of the same messages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "wire/packet.h"

namespace switchml::wire {

/// Who speaks: a worker of a session, and what proves it.
struct Membership {
  uint8_t job = 0;
  uint32_t epoch = 0;
  uint64_t session_key = 0;
  uint8_t worker = 0;
  /// Shows that what the switch sends to the address of one shard arrives there (JoinReply); 0: nothing has yet.
  uint64_t cookie = 0;
};

/// Room for any control request or reply.
inline constexpr size_t kMaxControlBytes = 80;
static_assert(kControlBytes + kProbeReplyBytes + kControlCheckBytes <= kMaxControlBytes);
inline constexpr size_t kMeetBytes = kJoinBytes + kIntroductionBytes;
inline constexpr size_t kMeetReplyBytes = kJoinReplyBytes + kIntroductionBytes;
static_assert(kControlBytes + kMeetBytes + kControlCheckBytes <= kMaxControlBytes);

/// Of numbers of queue pairs and packets.
inline constexpr uint32_t kMost24Bits = 0xffffff;
/// Whether it is of a queue pair of this service, by its own fields.
bool introduces(const Introduction& introduction, Service service);

// Each writes one request to `out` (at least kMaxControlBytes) and returns its size. The reply echoes `request_id`.
size_t build_open(const Open& open, uint32_t request_id, uint8_t* out);
size_t build_join(const Membership& member, int shard, uint32_t request_id, uint8_t* out);
size_t build_meet(const Membership& member, int shard, const Introduction& own, uint32_t request_id, uint8_t* out);
size_t build_close(const Membership& member, uint32_t request_id, uint8_t* out);
size_t build_probe(const Membership& member, uint16_t slot, uint32_t seq, uint32_t request_id, uint8_t* out);

// ---- the side that answers ----

/// A count as a probe's answer has it. [PROBE-3]
inline uint16_t capped(uint64_t count) { return static_cast<uint16_t>(std::min<uint64_t>(count, UINT16_MAX)); }

/// Whether a reply of this status has its type's body. [CTL-6]
inline bool has_body(ReplyStatus status) { return status == ReplyStatus::kOk || status == ReplyStatus::kProveAddress; }
/// Bytes that the body of a request of this type has; 0 for a type that does not exist.
size_t request_body_bytes(uint8_t type);
/// Makes a reply to `asked` of what is at `out` (at least kMaxControlBytes), and returns its size. Where the status
/// has_body(), the type's body is at out + kControlBytes already.
size_t finish_reply(const Control& asked, ReplyStatus status, uint8_t* out);

/// A reply: `body` is the field that belongs to `type`, set only where the status has_body().
struct Reply {
  Request type = Request::kOpen;
  ReplyStatus status = ReplyStatus::kOk;
  uint8_t version = kVersion;  // of the switch that answered
  uint32_t request_id = 0;
  OpenReply open;
  JoinReply join;  // of a meet, too
  Introduction introduction;
  ProbeReply probe;
};

/// Checks kind, type, status, length and checksum. A reply of another version is kNone too if it is the fixed part with
/// kBadVersion: it says which version the switch speaks, and nothing else. It has no checksum: who has only one of
/// these does not know. `out` is set on kNone only.
ParseError parse_reply(const uint8_t* frame, size_t size, Reply* out);

/// "unknown session", for messages.
const char* to_string(ReplyStatus status);
/// "open", "join", ...
const char* to_string(Request type);

}  // namespace switchml::wire
