// Builds the control requests that a member of a session sends, and views the replies, for the engine (lease, probes)
// and the session layer (open, join, close). The switch reads the same messages by itself.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "wire/packet.h"

namespace switchml::wire {

/// A worker of a session, with the proof of its membership.
struct Membership {
  uint8_t job = 0;
  uint32_t epoch = 0;
  uint64_t session_key = 0;
  uint8_t worker = 0;
  /// Proves that packets of the switch reach the address of one shard (JoinReply); 0: no reply has come yet.
  uint64_t cookie = 0;
};

/// The size of the longest control request or reply, or more.
inline constexpr size_t kMaxControlBytes = 80;
static_assert(kControlBytes + kProbeReplyBytes + kControlCheckBytes <= kMaxControlBytes);
inline constexpr size_t kMeetBytes = kJoinBytes + kIntroductionBytes;
inline constexpr size_t kMeetReplyBytes = kJoinReplyBytes + kIntroductionBytes;
static_assert(kControlBytes + kMeetBytes + kControlCheckBytes <= kMaxControlBytes);

/// The largest number of a queue pair or of a packet.
inline constexpr uint32_t kMost24Bits = 0xffffff;
/// Whether its fields are those of a queue pair of this service.
bool introduces(const Introduction& introduction, Service service);

// Each function writes one request to `out` (at least kMaxControlBytes) and returns its size. The reply echoes
// `request_id`.
size_t build_open(const Open& open, uint32_t request_id, uint8_t* out);
size_t build_join(const Membership& member, int shard, uint32_t request_id, uint8_t* out);
size_t build_meet(const Membership& member, int shard, const Introduction& own, uint32_t request_id, uint8_t* out);
size_t build_close(const Membership& member, uint32_t request_id, uint8_t* out);
size_t build_probe(const Membership& member, uint16_t slot, uint32_t seq, uint32_t request_id, uint8_t* out);

// ---- replies, written ----

/// A count, capped as in replies to probes. [PROBE-3]
inline uint16_t capped(uint64_t count) { return static_cast<uint16_t>(std::min<uint64_t>(count, UINT16_MAX)); }

/// Whether a reply of this status has its type's body. [CTL-6]
inline bool has_body(ReplyStatus status) { return status == ReplyStatus::kOk || status == ReplyStatus::kProveAddress; }
/// The size of the body of a request of this type; 0 for a type that does not exist.
size_t request_body_bytes(uint8_t type);
/// Completes a reply to `asked` at `out` (at least kMaxControlBytes), and returns its size. Where the status
/// has_body(), the caller has written the type's body to out + kControlBytes.
size_t finish_reply(const Control& asked, ReplyStatus status, uint8_t* out);

/// A reply: `body` is the field that belongs to `type`, set only where the status has_body().
struct Reply {
  Request type = Request::kOpen;
  ReplyStatus status = ReplyStatus::kOk;
  uint8_t version = kVersion;  // The switch's version.
  uint32_t request_id = 0;
  OpenReply open;
  JoinReply join;  // Replies to a meet have it too.
  Introduction introduction;
  ProbeReply probe;
};

/// Checks kind, type, status, length and checksum. A reply of another version is kNone too if it is the fixed part with
/// kBadVersion: it says which version the switch speaks, and nothing else. It has no checksum: a single one may be
/// damaged. `out` is set on kNone only.
ParseError parse_reply(const uint8_t* frame, size_t size, Reply* out);

/// For messages: "unknown session".
const char* to_string(ReplyStatus status);
/// "open", "join", ...
const char* to_string(Request type);

}  // namespace switchml::wire
