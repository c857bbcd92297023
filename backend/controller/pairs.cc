#include "controller/pairs.h"

#include "socket/address.h"
#include "wire/control.h"

namespace switchml::controller {

namespace {

constexpr uint32_t kLeastNumber = 2;            // 0 and 1 are for the management of InfiniBand.
constexpr uint64_t kMappedV4 = 0xffff00000000;  // ::ffff:0.0.0.0.
constexpr uint64_t kLowerHalf = 0xffffffff;     // The switch puts the offset into this half of an address.
constexpr size_t kSmallestMtu = 128;            // Doubled by each step from 1 on.

uint8_t place_bits(size_t message_bytes) {
  uint8_t bits = 0;
  while (size_t{1} << bits < message_bytes) ++bits;
  return bits;
}

/// The lower half of the GID of an IPv4 address; 0 for other addresses.
uint64_t gid_low_of(const Endpoint& endpoint) {
  const auto ip = ipv4_of(endpoint);
  return ip ? kMappedV4 | *ip : 0;
}

}  // namespace

std::optional<QueuePair> pair_of(const wire::Introduction& its, const Endpoint& from, size_t payload_bytes) {
  const size_t message_bytes = wire::kHeaderBytes + payload_bytes;
  const bool sane = wire::introduces(its, wire::Service::kUnreliableConnected) && its.queue_pair >= kLeastNumber;
  const bool from_there = its.gid_high == 0 && its.gid_low != 0 && its.gid_low == gid_low_of(from);
  if (!sane || !from_there) return std::nullopt;
  const bool fits = kSmallestMtu << its.mtu >= message_bytes && its.place_bits == place_bits(message_bytes) &&
                    (its.address & kLowerHalf) == 0;
  if (!fits) return std::nullopt;
  return QueuePair{its.queue_pair, its.first_psn, its.rkey, its.address};
}

wire::Introduction introduction_of(const QueuePair& own, const Endpoint& address, const wire::Introduction& its) {
  wire::Introduction result;
  result.queue_pair = own.number;
  result.first_psn = own.first_psn;
  result.gid_low = gid_low_of(address);
  result.mtu = its.mtu;
  result.service = its.service;
  result.place_bits = its.place_bits;
  result.rkey = own.rkey;
  result.address = own.address;
  return result;
}

}  // namespace switchml::controller
