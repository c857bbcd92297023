#include "client/switch_address.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "base/option.h"
#include "base/parse.h"
#include "base/random.h"
#include "engine/engine.h"
#include "socket/address.h"
#include "socket/sockaddr.h"
#include "switchd/key_file.h"

namespace switchml {

namespace {

Status bad_switch(const Config& config, const std::string& why) {
  return {Code::kInvalidArgument, "SWITCHML_SWITCH=" + quoted(config.switch_address) + " " + why};
}

Result<SwitchAddress> find_switch(const Config& config, const NamedSwitch& named, bool one_host) {
  SwitchAddress address;
  address.name = named.address;
  address.weight = named.weight;
  auto endpoint = resolve_address(address.name, "SWITCHML_SWITCH");
  if (!endpoint.ok()) return endpoint.status();
  address.endpoint = endpoint.value();
  if (!is_unicast(address.endpoint)) {
    return bad_switch(config, "has " + address.name + ", to which no host answers: give the address of one");
  }
  if (is_link_local(address.endpoint)) {
    return bad_switch(config, "has " + address.name + ", a link-local address: give one that is the same on all hosts");
  }
  if (!one_host && is_loopback(address.endpoint)) {
    return bad_switch(config,
                      "is a loopback address, but the ranks run on several hosts: give an address that all of them "
                      "reach");
  }
  return address;
}

constexpr const char* kEmbedded = " (embedded in rank ";

}  // namespace

bool is_embedded(const std::string& name) { return name.find(kEmbedded) != std::string::npos; }

void write_switch_address(const SwitchAddress& address, Blob* blob) {
  blob->set("address", to_string(address.endpoint));
  blob->set("name", address.name);
  blob->set("weight", address.weight);
  blob->set("client_key", address.client_key);
  if (address.seal) blob->set("seal", to_hex(*address.seal));
}

Result<SwitchAddress> read_switch_address(const Blob& blob) {
  SwitchAddress address;
  uint64_t weight = 0;
  auto endpoint = literal_address(blob.text("address"), 0);
  if (!endpoint.ok() || port_of(endpoint.value()) == 0 || !blob.number("weight", kMaxWeight, &weight) || weight == 0 ||
      !blob.number("client_key", UINT64_MAX, &address.client_key)) {
    return Status(Code::kMismatch, "a rank announced no switch that this version understands (address \"" +
                                       blob.text("address") + "\"): install the same switchml on all ranks");
  }
  address.endpoint = endpoint.value();
  address.name = blob.text("name");
  address.weight = static_cast<uint32_t>(weight);
  if (blob.text("seal").empty()) return address;
  const auto seal = parse_seal_key(blob.text("seal"));
  if (!seal.ok()) return Status(Code::kMismatch, "switch " + address.name + ": " + seal.status().message());
  address.seal = seal.value();
  return address;
}

bool names_switches(const Config& config) { return !config.switch_address.empty() || !config.controller.empty(); }

bool wants_exact(const Config& config) { return config.precision != Precision::kInteger && config.controller.empty(); }

bool may_take_tcp(const Config& config) { return config.transport == "auto" && wants_exact(config); }
bool may_take_rdma(const Config& config) { return may_take_tcp(config) && config.faults.empty(); }

PortWish card_wish(const Config& config) {
  PortWish wish;
  parse_port_wish(config.rdma_device, &wish);
  wish.emulated = config.transport == "rdma";
  wish.traffic_class = config.rdma_traffic_class;
  wish.service_level = config.rdma_service_level;
  return wish;
}

Result<std::vector<SwitchAddress>> named_switches(const Config& config, bool one_host) {
  const auto named = parse_switches(config.switch_address);
  if (!named) return not_allowed("SWITCHML_SWITCH", config.switch_address, kSwitchesForm);
  std::vector<SwitchAddress> switches;
  for (const NamedSwitch& each : *named) {
    auto address = find_switch(config, each, one_host);
    if (!address.ok()) return address.status();
    const auto is_same = [&](const SwitchAddress& other) { return other.endpoint == address->endpoint; };
    if (std::any_of(switches.begin(), switches.end(), is_same))
      return bad_switch(config, "names " + address->name + " twice");
    switches.push_back(std::move(address.value()));
  }
  const auto is_other_family = [&](const SwitchAddress& p) {
    return family_of(p.endpoint) != family_of(switches.front().endpoint);
  };
  if (std::any_of(switches.begin(), switches.end(), is_other_family)) {
    return bad_switch(config, "names addresses of IPv4 and of IPv6: allowed are those of one of them");
  }
  if (switches.size() > kMaxWorkers) {
    return bad_switch(config, "names " + std::to_string(switches.size()) + " switches: allowed are up to " +
                                  std::to_string(kMaxWorkers));
  }
  if (switches.size() > 1 && (!wants_exact(config) || config.fallback)) {
    return bad_switch(config,
                      "names several switches, which neither add integers nor are replaced when one is lost: name one, "
                      "or leave SWITCHML_PRECISION and SWITCHML_ON_SWITCH_FAILURE as they are");
  }
  return switches;
}

Result<std::optional<SealKey>> named_key(const Config& config) {
  if (config.switch_key_file.empty()) return std::optional<SealKey>();
  const auto key = read_key_file("SWITCHML_SWITCH_KEY_FILE", config.switch_key_file);
  return key.ok() ? Result<std::optional<SealKey>>(key.value()) : key.status();
}

Result<SwitchAddress> embedded_switch(const Config& config, const Endpoint& own, bool one_host,
                                      const std::optional<SealKey>& seal, const std::string& group, int rank,
                                      std::unique_ptr<SwitchServer>* server) {
  ServerOptions options;
  options.listen = own;
  options.softswitch.by_invitation = true;
  options.card_port = card_wish(config);
  options.seal = seal;
  if (config.transport == "rdma") options.card = ServerOptions::CardUse::kMust;
  if (may_take_rdma(config) && !one_host) options.card = ServerOptions::CardUse::kIfThereIsOne;
  auto started = SwitchServer::start(options);
  if (!started.ok()) return started.status();
  *server = std::move(started.value());
  SwitchAddress address;
  address.endpoint = (*server)->local();
  address.name = to_string(address.endpoint) + kEmbedded + std::to_string(rank) + " of " + group + ")";
  address.client_key = random_bits() | 1U;  // Not 0.
  address.seal = seal;
  for (uint64_t i = 0; i < kInvitations; ++i) (*server)->invite(address.client_key + i);
  return address;
}

std::string advice_on_slots(const wire::Open& asked, const wire::OpenReply& granted, size_t queue_bytes) {
  const size_t wanted = ServerOptions().receive_buffer_bytes;
  const size_t enough = std::max<size_t>(kPresetSlots / 2, size_t{asked.shards} * kLeastSlotsForBulk);
  if (queue_bytes >= wanted || granted.payload > kMostPayloadForStreams || granted.slots >= enough) return "";
  return "its switch, in rank 0, grants only " + std::to_string(granted.slots) +
         " slots, because the kernel lets its socket queue no more than " + std::to_string(queue_bytes / 1024) +
         " KiB, which makes large tensors slow, and small ones wait for them: raise the limit on that host (sysctl "
         "net.core.rmem_max=" +
         std::to_string(wanted) + "), or give the process CAP_NET_ADMIN";
}

}  // namespace switchml
