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

uint8_t LocalAddresses::number_of(const Local& local) {
  for (int i = 1; i <= count_; ++i) {
    const Local& known = known_[static_cast<size_t>(i)];
    if (known.family == local.family && std::memcmp(&known.v4, &local.v4, sizeof local.v4) == 0 &&
        std::memcmp(&known.v6, &local.v6, sizeof local.v6) == 0) {
      return static_cast<uint8_t>(i);
    }
  }
  if (count_ == 255) return 0;
  known_[static_cast<size_t>(++count_)] = local;
  return static_cast<uint8_t>(count_);
}

size_t LocalAddresses::write_control(uint8_t via, uint8_t* control) const {
  if (via == 0 || via > count_) return 0;
  const Local& local = known_[via];
  auto* c = reinterpret_cast<cmsghdr*>(control);
  std::memset(control, 0, kControlBytes);
  if (local.family == AF_INET) {
    in_pktinfo info{};
    info.ipi_spec_dst = local.v4;
    c->cmsg_level = IPPROTO_IP;
    c->cmsg_type = IP_PKTINFO;
    c->cmsg_len = CMSG_LEN(sizeof info);
    std::memcpy(CMSG_DATA(c), &info, sizeof info);
    return CMSG_SPACE(sizeof info);
  }
  c->cmsg_level = IPPROTO_IPV6;
  c->cmsg_type = IPV6_PKTINFO;
  c->cmsg_len = CMSG_LEN(sizeof local.v6);
  std::memcpy(CMSG_DATA(c), &local.v6, sizeof local.v6);
  return CMSG_SPACE(sizeof local.v6);
}

}  // namespace switchml
