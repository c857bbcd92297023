// Local addresses of a wildcard socket. An answer has to leave from the address that the question came to, or a
// connected asker never sees it. Received frames note the address's number (Endpoint::via); the sender puts that
// address into the message.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>

namespace switchml {

/// Writes one control message. Returns its length. `control` is aligned for a cmsghdr.
template <typename Value>
size_t write_control_message(int level, int type, const Value& value, uint8_t* control) {
  auto* message = reinterpret_cast<cmsghdr*>(control);
  std::memset(control, 0, CMSG_SPACE(sizeof value));
  message->cmsg_level = level;
  message->cmsg_type = type;
  message->cmsg_len = CMSG_LEN(sizeof value);
  std::memcpy(CMSG_DATA(message), &value, sizeof value);
  return CMSG_SPACE(sizeof value);
}

/// Numbers 1..255 for the local addresses seen so far, in order of appearance. Thread-safe: sockets that share a port
/// share this too, so that one may answer what another has received.
class LocalAddresses {
 public:
  /// The number of the address in the control messages of a received `message` (IP_PKTINFO, IPV6_PKTINFO); 0 if it has
  /// none, or the table is full: then the kernel chooses the source address.
  uint8_t learn(const msghdr& message);

  /// Appends the control message that makes `via` the source address. Returns its length, 0 for an unknown number.
  /// `control` has room for kControlBytes and is aligned for a cmsghdr.
  size_t write_control(uint8_t via, uint8_t* control) const;
  static constexpr size_t kControlBytes = CMSG_SPACE(sizeof(in6_pktinfo));

 private:
  struct Local {
    int family = AF_UNSPEC;
    in_addr v4{};
    in6_pktinfo v6{};
  };
  static bool same(const Local& a, const Local& b);
  uint8_t number_of(const Local& local);

  std::array<Local, 256> known_{};  // [0] is unused; never changed once counted
  std::atomic<int> count_{0};
  std::mutex adding_;
};

}  // namespace switchml
