#include "transport/udp_local.h"

#include <cstring>

namespace switchml {

uint8_t LocalAddresses::learn(const msghdr& message) {
  auto* header = const_cast<msghdr*>(&message);
  for (cmsghdr* c = CMSG_FIRSTHDR(header); c != nullptr; c = CMSG_NXTHDR(header, c)) {
    Local local;
    if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
      in_pktinfo info{};
      std::memcpy(&info, CMSG_DATA(c), sizeof info);
      local.family = AF_INET;
      local.v4 = info.ipi_spec_dst;
      return number_of(local);
    }
    if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
      local.family = AF_INET6;
      std::memcpy(&local.v6, CMSG_DATA(c), sizeof local.v6);
      // Only a link-local address needs its link; others may be answered over any.
      if (!IN6_IS_ADDR_LINKLOCAL(&local.v6.ipi6_addr)) local.v6.ipi6_ifindex = 0;
      return number_of(local);
    }
  }
  return 0;
}

bool LocalAddresses::same(const Local& a, const Local& b) {
  return a.family == b.family && std::memcmp(&a.v4, &b.v4, sizeof a.v4) == 0 &&
         std::memcmp(&a.v6, &b.v6, sizeof a.v6) == 0;
}

uint8_t LocalAddresses::number_of(const Local& local) {
  const auto known = [&](int first, int last) {
    for (int i = first; i <= last; ++i) {
      if (same(known_[static_cast<size_t>(i)], local)) return i;
    }
    return 0;
  };
  const int count = count_.load(std::memory_order_acquire);
  if (const int number = known(1, count)) return static_cast<uint8_t>(number);
  const std::lock_guard<std::mutex> lock(adding_);
  const int now = count_.load(std::memory_order_relaxed);
  if (const int number = known(count + 1, now)) return static_cast<uint8_t>(number);
  if (now == 255) return 0;
  known_[static_cast<size_t>(now + 1)] = local;
  count_.store(now + 1, std::memory_order_release);
  return static_cast<uint8_t>(now + 1);
}

size_t LocalAddresses::write_control(uint8_t via, uint8_t* control) const {
  if (via == 0 || via > count_.load(std::memory_order_acquire)) return 0;
  const Local& local = known_[via];
  if (local.family == AF_INET6) return write_control_message(IPPROTO_IPV6, IPV6_PKTINFO, local.v6, control);
  in_pktinfo info{};
  info.ipi_spec_dst = local.v4;
  return write_control_message(IPPROTO_IP, IP_PKTINFO, info, control);
}

}  // namespace switchml
