// The user's choice of a card for RDMA, and of its port.
#pragma once

#include <string>

namespace switchml {

/// Fields that the user leaves open are found by find_port() (transport/rdma/port.h).
struct PortWish {
  std::string device;    // Empty: any.
  int port = 0;          // 1 ... 255; 0: any.
  int gid_index = -1;    // -1: any of RoCE version 2.
  bool emulated = true;  // If no device is named, the kernel's software devices will do.
  // Marks of sent packets.
  int traffic_class = 0;  // 0 ... 255: the byte of the IP header with DSCP and ECN.
  int service_level = 0;  // 0 ... 7: the priority in a VLAN tag.
};

inline constexpr const char* kPortWishForm = "DEVICE, DEVICE:PORT (1 to 255) or DEVICE:PORT:GID_INDEX (0 to 255)";
inline constexpr int kMostTrafficClass = 255;
inline constexpr int kMostServiceLevel = 7;
/// Reads "DEVICE", "DEVICE:PORT", "DEVICE:PORT:GID_INDEX", or an empty text. False: another form; `wish` is unchanged.
bool parse_port_wish(const std::string& text, PortWish* wish);

}  // namespace switchml
