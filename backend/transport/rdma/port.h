// Which port of which card has the address by which this host talks.
#pragma once

#include <string>

#include "base/port_wish.h"
#include "base/status.h"
#include "socket/endpoint.h"
#include "transport/rdma/verbs.h"

namespace switchml::rdma {

/// A port that is open, and the address that it has there.
struct Port {
  Owned<ibv_context> context;
  std::string device;
  uint8_t number = 0;
  uint8_t gid_index = 0;
  ibv_gid gid{};
  ibv_mtu mtu = IBV_MTU_256;
  uint8_t traffic_class = 0;  // its packets' traffic class
  uint8_t service_level = 0;
  DeviceFacts facts;
};

/// The first that is active, is an Ethernet port, and has `local` (any port number) as an address of RoCE version 2.
/// Emulated ones only as the wish says. With a GID index, that of this index, whatever `local` is. kUnsupported: there
/// is none, with what each device lacks.
Result<Port> find_port(const Verbs& verbs, const PortWish& wish, const Endpoint& local);

/// What to say where no device can be opened: the kernel's devices are in `folder`, and those without a node in /dev
/// are not even listed.
std::string why_none(const std::string& folder = "/sys/class/infiniband");

/// The address as cards write it: an IPv4 address is ::ffff:a.b.c.d.
ibv_gid gid_of(const Endpoint& address);
std::string to_string(const ibv_gid& gid);

}  // namespace switchml::rdma
