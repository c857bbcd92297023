#include "socket/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/parse.h"
#include "socket/fd.h"
#include "socket/sockaddr.h"
#include "wire/layout.h"

namespace switchml {

namespace {

constexpr const char* kForm =
    "allowed: ADDRESS:PORT or ADDRESS, where ADDRESS is a host name, an IPv4 address or an IPv6 address in brackets, "
    "and PORT is 0 to 65535";

Status bad_address(const std::string& what, const std::string& text, const std::string& why) {
  return Status(Code::kInvalidArgument, what + "=" + quoted(text) + ": " + why + "; " + kForm);
}

std::optional<long> parse_port(const std::string& text) { return parse_integer(text, 0, 65535); }

bool parse_literal(const std::string& host, Endpoint* out) {
  for (const int family : {AF_INET, AF_INET6}) {
    Endpoint endpoint = any_endpoint(family);
    const size_t offset = family == AF_INET ? offsetof(sockaddr_in, sin_addr) : offsetof(sockaddr_in6, sin6_addr);
    if (::inet_pton(family, host.c_str(), endpoint.bytes + offset) != 1) continue;
    *out = endpoint;
    return true;
  }
  return false;
}

struct Network {
  std::string interface;
  Endpoint address;
};

/// Addresses of the interfaces that are up, as the kernel lists them.
std::vector<Network> networks() {
  ifaddrs* head = nullptr;
  if (::getifaddrs(&head) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(head, &::freeifaddrs);
  std::vector<Network> found;
  for (const ifaddrs* entry = head; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const Endpoint address = endpoint_of(entry->ifa_addr);
    if (address.size != 0) found.push_back({entry->ifa_name, address});
  }
  return found;
}

/// How well an address suits to be announced: IPv4 first, link-local IPv6 last (it means something on its link only).
int rank_of(const Endpoint& address) {
  if (family_of(address) == AF_INET) return 0;
  return is_link_local(address) ? 2 : 1;
}

/// The source address that the kernel would choose towards `destination`; nothing is sent. Empty if there is no route.
Endpoint source_towards(const char* destination, int family) {
  Endpoint to = any_endpoint(family);
  const size_t offset = family == AF_INET ? offsetof(sockaddr_in, sin_addr) : offsetof(sockaddr_in6, sin6_addr);
  ::inet_pton(family, destination, to.bytes + offset);
  to = with_port(to, wire::kDefaultPort);
  const Fd fd(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || ::connect(fd.get(), as_sockaddr(to), to.size) != 0) return {};
  return with_port(local_endpoint(fd.get()), 0);
}

Endpoint loopback() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return to_endpoint(address);
}

Result<Endpoint> address_of_interface(const std::string& interface) {
  const Network* best = nullptr;
  std::set<std::string> names;
  const std::vector<Network> all = networks();
  for (const Network& network : all) {
    names.insert(network.interface);
    if (network.interface != interface) continue;
    if (best == nullptr || rank_of(network.address) < rank_of(best->address)) best = &network;
  }
  if (best != nullptr) return with_port(best->address, 0);
  std::string allowed;
  for (const std::string& name : names) allowed += (allowed.empty() ? "" : ", ") + name;
  return Status(Code::kInvalidArgument, "SWITCHML_INTERFACE=" + quoted(interface) +
                                            ": no such network interface is up with an address; allowed: " + allowed);
}

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// `family` may be AF_UNSPEC. Empty, with the resolver's error in `error`, where nothing is found.
AddressList look_up(const std::string& host, int family, int* error) {
  addrinfo hints{};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* head = nullptr;
  *error = ::getaddrinfo(host.c_str(), nullptr, &hints, &head);
  return {*error == 0 ? head : nullptr, &::freeaddrinfo};
}

}  // namespace

Result<Endpoint> resolve_address(const std::string& text, const std::string& what) {
  HostPort parts;
  const std::string wrong = split_address(text, &parts);
  if (!wrong.empty()) return bad_address(what, text, wrong);
  const auto port = parts.has_port ? parse_port(parts.port) : wire::kDefaultPort;
  if (!port) return bad_address(what, text, "\"" + parts.port + "\" is not a port");

  int error = 0;
  const AddressList found = look_up(parts.host, text[0] == '[' ? AF_INET6 : AF_UNSPEC, &error);
  if (found == nullptr) {
    return Status(Code::kUnavailable, what + "=" + quoted(text) + ": no address found for " + quoted(parts.host) +
                                          " (" + ::gai_strerror(error) + "); " + kForm);
  }
  Endpoint best;
  for (const addrinfo* entry = found.get(); entry != nullptr; entry = entry->ai_next) {
    const Endpoint address = endpoint_of(entry->ai_addr);
    if (address.size != 0 && (best.size == 0 || rank_of(address) < rank_of(best))) best = address;
  }
  if (best.size == 0) return bad_address(what, text, "\"" + parts.host + "\" has no IPv4 or IPv6 address");
  return with_port(best, static_cast<uint16_t>(*port));
}

Result<Endpoint> literal_address(const std::string& text, uint16_t default_port) {
  Endpoint endpoint;
  if (parse_literal(text, &endpoint)) return with_port(endpoint, default_port);
  HostPort parts;
  const std::string wrong = split_address(text, &parts);
  const auto port = wrong.empty() && parts.has_port ? parse_port(parts.port) : std::nullopt;
  // Brackets are for IPv6, and only for it.
  if (port && parse_literal(parts.host, &endpoint) && (family_of(endpoint) == AF_INET6) == (text[0] == '[')) {
    return with_port(endpoint, static_cast<uint16_t>(*port));
  }
  return Status(Code::kInvalidArgument, "\"" + text +
                                            "\" is not a literal IP address; allowed are 10.0.0.1, 10.0.0.1:48879, "
                                            "fe80::1 and [fe80::1]:48879");
}

const char* name_of(Carrier carrier) {
  switch (carrier) {
    case Carrier::kPackets: return "udp";
    case Carrier::kRdma:
    case Carrier::kPlaces: return "rdma";
    case Carrier::kTcp:
    case Carrier::kTcpAccepted: break;
  }
  return "tcp";
}

std::string to_string(const Endpoint& endpoint) {
  if (endpoint.size == 0) return "none";
  char text[INET6_ADDRSTRLEN] = "";
  const bool packets = endpoint.carrier == Carrier::kPackets;
  const std::string port =
      ":" + std::to_string(port_of(endpoint)) + (packets ? "" : std::string("/") + name_of(endpoint.carrier));
  if (family_of(endpoint) == AF_INET) {
    const auto address = load_sockaddr<sockaddr_in>(endpoint);
    return ::inet_ntop(AF_INET, &address.sin_addr, text, sizeof text) + port;
  }
  if (family_of(endpoint) == AF_INET6) {
    const auto address = load_sockaddr<sockaddr_in6>(endpoint);
    std::string host = ::inet_ntop(AF_INET6, &address.sin6_addr, text, sizeof text);
    if (address.sin6_scope_id != 0) host += "%" + std::to_string(address.sin6_scope_id);
    return "[" + host + "]" + port;
  }
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex = "endpoint ";
  for (size_t i = 0; i < std::min<size_t>(endpoint.size, Endpoint::kBytes); ++i) {
    hex += kDigits[endpoint.bytes[i] >> 4];
    hex += kDigits[endpoint.bytes[i] & 15];
  }
  return hex;
}

bool same_address(const Endpoint& a, const Endpoint& b) {
  return with_port(a, 0) == with_carrier(with_port(b, 0), a.carrier);
}

std::optional<uint32_t> ipv4_of(const Endpoint& endpoint) {
  if (family_of(endpoint) != AF_INET) return std::nullopt;
  return ntohl(load_sockaddr<sockaddr_in>(endpoint).sin_addr.s_addr);
}

bool is_loopback(const Endpoint& endpoint) {
  if (const auto ip = ipv4_of(endpoint)) return *ip >> 24 == 127;
  if (family_of(endpoint) != AF_INET6) return false;
  const auto address = load_sockaddr<sockaddr_in6>(endpoint);
  return IN6_IS_ADDR_LOOPBACK(&address.sin6_addr);
}

bool is_link_local(const Endpoint& endpoint) {
  if (family_of(endpoint) != AF_INET6) return false;
  const auto address = load_sockaddr<sockaddr_in6>(endpoint);
  return IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr);
}

// The port lies at the same place in both families.
static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));

bool is_unicast(const Endpoint& endpoint) {
  if (is_any(endpoint)) return false;
  if (family_of(endpoint) == AF_INET6) return load_sockaddr<sockaddr_in6>(endpoint).sin6_addr.s6_addr[0] != 0xff;
  const uint32_t bits = ntohl(load_sockaddr<sockaddr_in>(endpoint).sin_addr.s_addr);
  return !IN_MULTICAST(bits) && bits != INADDR_BROADCAST;
}

uint16_t port_of(const Endpoint& endpoint) {
  if (family_of(endpoint) == AF_UNSPEC) return 0;
  uint16_t port = 0;
  std::memcpy(&port, endpoint.bytes + offsetof(sockaddr_in, sin_port), sizeof port);
  return ntohs(port);
}

Endpoint with_port(Endpoint endpoint, uint16_t port) {
  if (family_of(endpoint) == AF_UNSPEC) return endpoint;
  const uint16_t network_order = htons(port);
  std::memcpy(endpoint.bytes + offsetof(sockaddr_in, sin_port), &network_order, sizeof network_order);
  return endpoint;
}

Endpoint with_carrier(Endpoint endpoint, Carrier carrier) {
  endpoint.carrier = carrier;
  return endpoint;
}

Result<Endpoint> announced_address(const std::string& interface) {
  if (!interface.empty()) return address_of_interface(interface);
  // Documentation addresses (RFC 5737, RFC 3849) stand for "the outside": as a rule only the default route matches
  // them.
  const Endpoint v4 = source_towards("192.0.2.1", AF_INET);
  if (v4.size != 0 && !is_loopback(v4)) return v4;
  const Endpoint v6 = source_towards("2001:db8::1", AF_INET6);
  if (v6.size != 0 && !is_loopback(v6)) return v6;
  // No default route: a network of its own, or none at all.
  Endpoint best;
  for (const Network& network : networks()) {
    if (is_loopback(network.address)) continue;
    if (best.size == 0 || rank_of(network.address) < rank_of(best)) best = network.address;
  }
  return best.size != 0 ? with_port(best, 0) : loopback();
}

std::vector<Endpoint> local_addresses(const std::string& interface) {
  std::vector<Endpoint> out;
  const auto add = [&out](const Endpoint& found) {
    const Endpoint address = with_port(found, 0);
    if (address.size == 0 || rank_of(address) == 2) return;
    if (std::find(out.begin(), out.end(), address) == out.end()) out.push_back(address);
  };
  const std::vector<Network> all = networks();
  for (const Network& network : all) {
    if (network.interface == interface) add(network.address);
  }
  if (auto announced = announced_address(""); announced.ok() && !is_loopback(announced.value())) add(announced.value());
  for (const bool loopbacks : {false, true}) {
    for (const Network& network : all) {
      if (is_loopback(network.address) == loopbacks) add(network.address);
    }
  }
  return out;
}

std::vector<Endpoint> candidate_addresses(const std::string& interface) {
  std::vector<Endpoint> out;
  if (interface.empty()) {
    out = local_addresses("");
    out.erase(std::remove_if(out.begin(), out.end(), is_loopback), out.end());
    return out;
  }
  for (const Network& network : networks()) {
    if (network.interface == interface && rank_of(network.address) < 2) out.push_back(with_port(network.address, 0));
  }
  return out;
}

std::vector<Endpoint> addresses_of(const std::string& host) {
  std::vector<Endpoint> out;
  int error = 0;
  const AddressList found = look_up(host, AF_UNSPEC, &error);
  for (const addrinfo* entry = found.get(); entry != nullptr; entry = entry->ai_next) {
    const Endpoint address = with_port(endpoint_of(entry->ai_addr), 0);
    if (address.size != 0 && !is_loopback(address)) out.push_back(address);
  }
  return out;
}

std::string to_literal(const Endpoint& endpoint) {
  const std::string text = to_string(with_port(endpoint, 0));  // ends in ":0" or ":0/tcp"
  const std::string host = text.substr(0, text.rfind(':'));
  return host.size() > 2 && host.front() == '[' ? host.substr(1, host.size() - 2) : host;
}

std::string host_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat space {};
  if (!boot.empty() && ::stat("/proc/self/ns/net", &space) == 0) return boot + "/" + std::to_string(space.st_ino);
  // It cannot be known without /proc; a text that equals no other is the safe answer.
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) != 0) name[0] = '\0';
  return std::string("unknown/") + name + "/" + std::to_string(::getpid());
}

}  // namespace switchml
