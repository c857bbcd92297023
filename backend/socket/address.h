// Addresses as people write them: "10.0.0.1:48879", "[fe80::1]:48879", "switch7:48879", "host" (default port).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "socket/endpoint.h"

namespace switchml {

/// Parses and resolves. IPv4 is preferred where a name has both. `what` names the setting in the error
/// ("SWITCHML_SWITCH"), which gives the value and the form that is allowed.
Result<Endpoint> resolve_address(const std::string& text, const std::string& what);

/// Parses an address that is a number: "10.0.0.1:48879", "[fe80::1]:48879", "10.0.0.1" or "fe80::1"; without a port,
/// `default_port`. No name is looked up, so it never waits. kInvalidArgument: the text and the forms that are allowed.
Result<Endpoint> literal_address(const std::string& text, uint16_t default_port);

/// "udp", "tcp" or "rdma".
const char* name_of(Carrier carrier);
/// "10.0.0.1:48879" or "[::1]:48879", with "/tcp" or "/rdma" behind it if those carry frames to there; "none" for an
/// empty endpoint.
std::string to_string(const Endpoint& endpoint);

/// Same host (address), whatever the port and the carrier.
bool same_address(const Endpoint& a, const Endpoint& b);
/// An IPv4 endpoint's address as a number: 0x0a000001 for 10.0.0.1.
std::optional<uint32_t> ipv4_of(const Endpoint& endpoint);
/// 127.0.0.0/8 or ::1.
bool is_loopback(const Endpoint& endpoint);
/// A link-local IPv6 address: its zone, an interface, has another number on each host.
bool is_link_local(const Endpoint& endpoint);
/// Packets can be sent to it as to one host.
bool is_unicast(const Endpoint& endpoint);
uint16_t port_of(const Endpoint& endpoint);
Endpoint with_port(Endpoint endpoint, uint16_t port);
Endpoint with_carrier(Endpoint endpoint, Carrier carrier);

/// The address of this host that a packet to the outside would carry; loopback where there is none. For an embedded
/// switch to announce. `interface` (may be empty) restricts it to that network interface and is an error if it has no
/// address.
Result<Endpoint> announced_address(const std::string& interface);

/// The addresses of this host that are up, the preferred ones first: those of `interface` (may be empty), the one of
/// announced_address(), all others; loopback last, link-local ones not at all. Port 0.
std::vector<Endpoint> local_addresses(const std::string& interface);
/// The same without loopback ones; of `interface` alone, where it is not empty, and then loopback ones too.
std::vector<Endpoint> candidate_addresses(const std::string& interface);
/// The addresses of `host`, a name or a literal, but loopback ones; none where it is not known. Looks names up.
std::vector<Endpoint> addresses_of(const std::string& host);
/// The address without port and brackets: "10.0.0.1", "2001:db8::1".
std::string to_literal(const Endpoint& endpoint);

/// A text that is equal for two processes exactly if they share a network stack: boot id and network namespace.
std::string host_identity();

}  // namespace switchml
