// Which port of which card for RDMA a user wants.
#pragma once

#include <string>

namespace switchml {

/// What a user names; the rest is found.
struct PortWish {
  std::string device;    // empty: any
  int port = 0;          // 1 ... 255; 0: any
  int gid_index = -1;    // -1: any of RoCE version 2
  bool emulated = true;  // where no device is named: also one that is software of the kernel
  // Of what it sends.
  int traffic_class = 0;  // 0 ... 255: the byte of the IP header with DSCP and ECN
  int service_level = 0;  // 0 ... 7: the priority in a VLAN tag
};

inline constexpr const char* kPortWishForm = "DEVICE, DEVICE:PORT (1 to 255) or DEVICE:PORT:GID_INDEX (0 to 255)";
inline constexpr int kMostTrafficClass = 255;
inline constexpr int kMostServiceLevel = 7;
/// "DEVICE", "DEVICE:PORT", "DEVICE:PORT:GID_INDEX", or nothing. False: another form, and `wish` is as it was.
bool parse_port_wish(const std::string& text, PortWish* wish);

}  // namespace switchml
