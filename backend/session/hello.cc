#include "session/hello.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/parse.h"
#include "base/siphash.h"
#include "client/switch_address.h"
#include "kernels/kernels.h"
#include "seal/initiator.h"
#include "seal/seal_key.h"
#include "session/host_addresses.h"
#include "session/shared_memory.h"
#include "socket/address.h"
#include "socket/sockaddr.h"
#include "wire/control.h"

namespace switchml {

namespace {

// Settings in which all ranks must be as rank 0: topic key, and the name that a user knows.
struct SharedSetting {
  const char* key;
  const char* name;
  bool preset_is_zero = false;
};
constexpr SharedSetting kShared[] = {
    {"protocol", "protocol version"},
    {"package", "switchml version"},
    {"size", "group size"},
    {"switch", "SWITCHML_SWITCH"},
    {"controller", "SWITCHML_CONTROLLER"},
    {"transport", "SWITCHML_TRANSPORT"},
    {"precision", "SWITCHML_PRECISION"},
    {"significant_bits", "SWITCHML_SIGNIFICANT_BITS"},
    {"payload", "SWITCHML_PAYLOAD", true},
    {"slots", "SWITCHML_SLOTS", true},
    {"shards", "SWITCHML_SHARDS"},
    {"on_switch_failure", "SWITCHML_ON_SWITCH_FAILURE"},
    {"switch_key", "a hash of the key in SWITCHML_SWITCH_KEY_FILE"},
};

Status check_kernels(const Config& config) {
  auto wanted = select_kernels(config.kernels);
  if (!wanted.ok()) return Status(wanted.status().code(), "SWITCHML_KERNELS: " + wanted.status().message());
  if (config.kernels == "auto" || config.kernels == kernels().name) return {};
  return {Code::kInvalidArgument, "kernels=\"" + config.kernels + "\" cannot be had: this process runs the " +
                                      kernels().name + " kernels already; set SWITCHML_KERNELS before it starts"};
}

// On every rank and host layout alike, so that a typing error shows at once.
Status check_interface(const Config& config) {
  return config.interface.empty() ? Status() : announced_address(config.interface).status();
}

// Each rank's watch is sealed, from a thread that has no caller to tell.
Status check_openssl() {
  try {
    seal::require_openssl();
    return {};
  } catch (const StatusError& error) {
    return {error.status().code(), error.status().message() +
                                       " on this host (openssl list -providers shows what it has), and ranks encrypt "
                                       "how they watch over each other, whatever SWITCHML_ENCRYPTION says"};
  }
}

// It tells keys apart, and nothing else of them.
std::string hash_of(const SealKey& key) {
  SipKey half{};
  std::memcpy(&half, key.bytes.data(), sizeof half);
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, siphash24(half, key.bytes.data() + sizeof half, sizeof half));
  return text;
}

// Auto goes with either.
Result<Encryption> common_encryption(const std::vector<Blob>& hellos) {
  const std::string on = name_of(Encryption::kOn), off = name_of(Encryption::kOff);
  const auto find = [&hellos](const std::string& name) {
    const auto said = [&name](const Blob& hello) { return hello.text("encryption") == name; };
    return std::find_if(hellos.begin(), hellos.end(), said) - hellos.begin();
  };
  const auto ranks = static_cast<std::ptrdiff_t>(hellos.size());
  const auto first_on = find(on), first_off = find(off);
  if (first_on == ranks) return first_off == ranks ? Encryption::kAuto : Encryption::kOff;
  if (first_off == ranks) return Encryption::kOn;
  const auto rank = [](std::ptrdiff_t number) { return "rank " + std::to_string(number); };
  return Status(Code::kMismatch, rank(first_off) + " has SWITCHML_ENCRYPTION " + quoted(off) + " but " +
                                     rank(first_on) + " has " + quoted(on) +
                                     ": they must be the same on all ranks, or auto");
}

// As a user would write it.
std::string shown(const SharedSetting& setting, const std::string& value) {
  const bool preset = value.empty() || (value == "0" && setting.preset_is_zero);
  return preset ? "none (the default)" : "\"" + value + "\"";
}

}  // namespace

Result<Blob> hello_of(const Config& config, const GroupInfo& group) {
  if (Status status = check_kernels(config); !status.ok()) return status;
  if (Status status = check_affinity(config); !status.ok()) return status;
  if (Status status = check_interface(config); !status.ok()) return status;
  if (Status status = check_openssl(); !status.ok()) return status;
  const auto switch_key = named_key(config);
  if (!switch_key.ok()) return switch_key.status();
  Blob blob;
  blob.set("host", host_identity());
  write_host_addresses(config, group.store_host, &blob);
  blob.set("processors", to_text(own_processors()));
  blob.set("protocol", wire::kVersion);
  blob.set("package", SWITCHML_VERSION);
  blob.set("size", static_cast<uint64_t>(group.size));
  blob.set("switch", config.switch_address);
  blob.set("controller", config.controller);
  if (!config.controller.empty()) {
    std::string addresses;
    for (const Endpoint& address : local_addresses(config.interface)) addresses += to_literal(address) + " ";
    blob.set("addresses", addresses);
  }
  blob.set("transport", config.transport);
  blob.set("precision", name_of(config.precision));
  blob.set("significant_bits", config.significant_bits ? std::to_string(*config.significant_bits) : "auto");
  blob.set("faults", config.faults.empty() ? "" : "some");
  blob.set("encryption", name_of(config.encryption));
  blob.set("aes", has_aes_instructions() ? 1 : 0);
  if (switch_key.value()) blob.set("switch_key", hash_of(*switch_key.value()));
  blob.set("on_switch_failure", config.fallback ? "fallback" : "error");
  blob.set("payload", config.payload_bytes);
  blob.set("slots", static_cast<uint64_t>(config.slots));
  blob.set("shards", static_cast<uint64_t>(config.shards));
  return blob;
}

Status compare_hellos(const std::vector<Blob>& hellos) {
  for (size_t rank = 1; rank < hellos.size(); ++rank) {
    for (const SharedSetting& setting : kShared) {
      const std::string mine = hellos[0].text(setting.key);
      const std::string theirs = hellos[rank].text(setting.key);
      if (mine == theirs) continue;
      return {Code::kMismatch, "rank " + std::to_string(rank) + " has " + setting.name + " " + shown(setting, theirs) +
                                   " but rank 0 has " + shown(setting, mine) + ": they must be the same on all ranks"};
    }
  }
  return {};
}

Result<Roster> read_hellos(const Config& config, const std::vector<Blob>& hellos) {
  if (Status status = compare_hellos(hellos); !status.ok()) return status;
  Roster roster;
  const auto encryption = common_encryption(hellos);
  if (!encryption.ok()) return encryption.status();
  roster.encryption = encryption.value();
  for (const Blob& hello : hellos) {
    if (!roster.without_aes && hello.text("aes") != "1") roster.without_aes = static_cast<int>(roster.hosts.size());
    roster.hosts.push_back(hello.text("host"));
    roster.processors.push_back(read_processor_share(hello.text("processors")));
    roster.faults = roster.faults || !hello.text("faults").empty();
  }
  if (Status status = check_hosts(config, roster.hosts); !status.ok()) return status;
  roster.layout = HostLayout::of(roster.hosts);
  if (Status status = check_limits(config, roster.layout, roster.faults); !status.ok()) return status;
  if (!roster.one_host()) roster.addresses = choose_host_addresses(roster.layout, hellos);
  return roster;
}

void Roster::write_neighbours(const std::vector<int>& threads, Blob* blob) const {
  const std::vector<MachineRanks> all = machine_ranks(hosts, processors, threads);
  for (size_t rank = 0; rank < all.size(); ++rank) blob->set("local/" + std::to_string(rank), to_text(all[rank]));
}

MachineRanks read_neighbours(const Blob& blob, int rank) {
  return read_machine_ranks(blob.text("local/" + std::to_string(rank)));
}

}  // namespace switchml
