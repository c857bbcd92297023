#include "transport/rdma/port.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "socket/address.h"
#include "socket/sockaddr.h"

namespace switchml::rdma {

namespace {

/// Looks through one device after the other, and keeps what is wrong with each.
class Search {
 public:
  Search(const Verbs& verbs, const PortWish& wish, const Endpoint& local)
      : verbs_(verbs), wish_(wish), local_(local), gid_(gid_of(local)) {}

  Result<Port> run() {
    const auto devices = verbs_.devices();
    if (!devices.ok()) return devices.status();
    for (const std::string& device : devices.value()) {
      if (!wish_.device.empty() && wish_.device != device) {
        misses(device, "not \"" + wish_.device + "\", which is named");
        continue;
      }
      Port port;
      if (look_at(device, &port)) return port;
    }
    return none();
  }

 private:
  void misses(const std::string& device, const std::string& what) {
    why_ += (why_.empty() ? "" : "; ") + device + ": " + what;
  }

  bool look_at(const std::string& device, Port* port) {
    auto context = verbs_.open(device);
    if (!context.ok()) {
      misses(device, context.status().message());
      return false;
    }
    const auto facts = verbs_.query(context.value().get());
    const auto gids = verbs_.gids(context.value().get());
    if (!facts.ok() || !gids.ok()) {
      misses(device, (facts.ok() ? gids.status() : facts.status()).message());
      return false;
    }
    if (facts->is_emulated && !wish_.emulated && wish_.device.empty()) {
      misses(device, "emulated by software, and so used only where it is named");
      return false;
    }
    is_told_ = false;
    port->facts = facts.value();
    port->device = device;
    for (const ibv_gid_entry& entry : gids.value()) {
      if (!is_wished(entry) || !is_usable(context.value().get(), device, entry, port)) continue;
      port->context = std::move(context.value());
      return true;
    }
    const std::string who = wish_.port == 0 ? "no port has " : "no port " + std::to_string(wish_.port) + " with ";
    if (!is_told_) misses(device, who + wanted());
    return false;
  }

  bool is_wished(const ibv_gid_entry& entry) const {
    if (wish_.port != 0 && entry.port_num != static_cast<uint32_t>(wish_.port)) return false;
    if (wish_.gid_index >= 0) return entry.gid_index == static_cast<uint32_t>(wish_.gid_index);
    return entry.gid_type == IBV_GID_TYPE_ROCE_V2 && std::memcmp(entry.gid.raw, gid_.raw, sizeof gid_.raw) == 0;
  }

  bool is_usable(ibv_context* context, const std::string& device, const ibv_gid_entry& entry, Port* port) {
    const std::string where = "port " + std::to_string(entry.port_num);
    is_told_ = true;
    const auto facts = verbs_.query_port(context, static_cast<uint8_t>(entry.port_num));
    if (!facts.ok() || !facts->is_active || !facts->is_ethernet) {
      misses(device, where + " " +
                         (!facts.ok()         ? facts.status().message()
                          : !facts->is_active ? "is not active"
                                              : "is no Ethernet port"));
      return false;
    }
    if (entry.gid_type != IBV_GID_TYPE_ROCE_V2) {
      misses(device, "GID index " + std::to_string(entry.gid_index) + " is not of RoCE version 2");
      return false;
    }
    port->number = static_cast<uint8_t>(entry.port_num);
    port->gid_index = static_cast<uint8_t>(entry.gid_index);
    port->gid = entry.gid;
    port->mtu = facts->mtu;
    port->traffic_class = static_cast<uint8_t>(wish_.traffic_class);
    port->service_level = static_cast<uint8_t>(wish_.service_level);
    return true;
  }

  std::string wanted() const {
    if (wish_.gid_index >= 0) return "GID index " + std::to_string(wish_.gid_index);
    return "the address " + to_literal(local_) + " for RoCE version 2";
  }

  Status none() const {
    return {Code::kUnsupported,
            "no RDMA device can be used here" + (why_.empty() ? ": " + why_none() : " (" + why_ + ")")};
  }

  const Verbs& verbs_;
  const PortWish& wish_;
  const Endpoint local_;
  const ibv_gid gid_;
  bool is_told_ = false;  // the device's fault has been told
  std::string why_;
};

}  // namespace

Result<Port> find_port(const Verbs& verbs, const PortWish& wish, const Endpoint& local) {
  return Search(verbs, wish, local).run();
}

std::string why_none(const std::string& folder) {
  std::vector<std::string> devices;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none))
    devices.push_back(entry.path().filename());
  if (devices.empty()) return "there is none";
  std::sort(devices.begin(), devices.end());
  std::string names;
  for (const std::string& device : devices) names += (names.empty() ? "" : ", ") + device;
  return "the kernel has " + names +
         ", but this process finds no /dev/infiniband/uverbs* for it: give it to the container";
}

ibv_gid gid_of(const Endpoint& address) {
  ibv_gid gid{};
  if (family_of(address) == AF_INET6) {
    const auto six = load_sockaddr<sockaddr_in6>(address);
    std::memcpy(gid.raw, &six.sin6_addr, sizeof gid.raw);
  } else if (family_of(address) == AF_INET) {
    const auto four = load_sockaddr<sockaddr_in>(address);
    gid.raw[10] = gid.raw[11] = 0xff;
    std::memcpy(gid.raw + 12, &four.sin_addr, sizeof four.sin_addr);
  }
  return gid;
}

std::string to_string(const ibv_gid& gid) {
  char text[INET6_ADDRSTRLEN] = {};
  ::inet_ntop(AF_INET6, gid.raw, text, sizeof text);
  return text;
}

}  // namespace switchml::rdma
