// What goes over TCP between two ranks besides the records of messages, and what their transport's files share.
#pragma once

#include <cerrno>
#include <cstdint>
#include <string>

#include "messages/message_transport.h"
#include "transport/byte_stream.h"

namespace switchml {

/// What every connection begins with.
struct MessageGreeting {
  uint32_t magic = 0x314d5753;  // "SWM1"
  uint32_t rank = 0;
  uint64_t key = 0;
};
static_assert(sizeof(MessageGreeting) == 16 && sizeof(MessageRecord) == 32, "they lie on the wire as in memory");

namespace tcp_message {

/// Records of the transport's own.
inline constexpr uint32_t kTaken = 16;     // `id`: what its sender has taken of what was unasked for, ever
inline constexpr uint32_t kFarewell = 17;  // the last one; `id`: a State, and its reason behind

/// What epoll tells of; the lower half is a rank, or a stranger's descriptor.
inline constexpr uint64_t kListening = uint64_t{1} << 32;
inline constexpr uint64_t kStranger = uint64_t{2} << 32;
inline constexpr uint64_t kOut = uint64_t{3} << 32;
inline constexpr uint64_t kIn = uint64_t{4} << 32;

inline constexpr Duration kGreetingTime = seconds(5);  // A stranger has so long.

inline std::string error_text(int error) { return ByteStream::error_text(error); }
inline bool is_for_now(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR || error == ENOTCONN;
}

}  // namespace tcp_message

}  // namespace switchml
