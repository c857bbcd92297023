#include "base/config.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>

#include "base/limits.h"
#include "base/log.h"
#include "base/option.h"
#include "base/parse.h"
#include "base/port_wish.h"
#include "base/processors.h"
#include "base/secret.h"

namespace switchml {

namespace {

constexpr const char* kPrefix = "SWITCHML_";

OptionValue precision(Precision* precision) {
  const auto set = [precision](const std::string& name) {
    *precision = name == "integer" ? Precision::kInteger : name == "exact" ? Precision::kExact : Precision::kAuto;
  };
  return value::one_of(
      {"auto", "integer", "exact"}, set, [precision] { return std::string(name_of(*precision)); },
      "; integer not together with transport=shm");
}

OptionValue encryption(Encryption* encryption) {
  const auto set = [encryption](const std::string& name) {
    *encryption = name == "on" ? Encryption::kOn : name == "off" ? Encryption::kOff : Encryption::kAuto;
  };
  return value::one_of({"auto", "on", "off"}, set, [encryption] { return std::string(name_of(*encryption)); });
}

/// One of two names, of which `yes` means true.
OptionValue flag(bool* out, const std::vector<std::string>& names, const std::string& yes) {
  const std::string no = names[0] == yes ? names[1] : names[0];
  const auto set = [=](const std::string& name) { *out = name == yes; };
  return value::one_of(names, set, [=] { return *out ? yes : no; });
}

OptionValue token(std::string* out) {
  OptionValue value =
      value::text(out, "printable ASCII without blanks, or empty; not together with controller_token_file",
                  [](const std::string& text) { return text.empty() || printable_secret(text); });
  value.print = [out] { return std::string(out->empty() ? "" : "hidden"); };
  return value;
}

OptionValue rdma_device(std::string* out) {
  return value::text(out, std::string(kPortWishForm) + ", or empty", [](const std::string& text) {
    PortWish wish;
    return parse_port_wish(text, &wish);
  });
}

OptionValue affinity(std::string* out) {
  const auto good = [](const std::string& text) { return text == "off" || parse_processor_list(text).has_value(); };
  OptionValue value = value::text(out, "off, or a list of processors (0-3,8; numbers below 8192)", good);
  value.take = [out, take = value.take](const std::string& text) {
    if (text != "auto") return take(text);
    SWITCHML_LOG(kWarning) << "SWITCHML_AFFINITY=auto is off now: name processors, or let the launcher place processes";
    *out = "off";
    return true;
  };
  return value;
}

// The controller that names switches, and the caller's identity.
std::vector<Option> controller_settings(Config* c) {
  return {
      {"controller",
       value::text(&c->controller,
                   "ADDRESS:PORT or ADDRESS, with a port from 1 to 65535, an IPv6 address in brackets and no wildcard "
                   "one, or empty; not together with switch",
                   [](const std::string& text) { return text.empty() || is_address(text); }),
       "the switchml-controller that says where the switches are; without a port 48880"},
      {"controller_token", token(&c->controller_token), "identifies the caller to the controller"},
      {"controller_token_file", value::text(&c->controller_token_file, "the name of a file, or empty"),
       "a file whose first line is the token"},
      {"controller_ca", value::text(&c->controller_ca, "the name of a PEM file, or empty (no TLS)"),
       "the authorities that vouch for the controller; with it the connection uses TLS"},
      {"controller_cert",
       value::text(&c->controller_cert,
                   "the name of a PEM file, together with controller_key and controller_ca, or empty"),
       "the certificate that the controller is shown"},
      {"controller_key",
       value::text(&c->controller_key,
                   "the name of a PEM file, together with controller_cert and controller_ca, or empty"),
       "the key of that certificate"},
  };
}

std::vector<Option> time_settings(Config* c) {
  constexpr Duration kMs = milliseconds(1);
  return {
      {"connect_timeout", value::duration(0.1, 3600, seconds(1), &c->connect_timeout, " (seconds)"),
       "time to find and join a switch, without the time spent waiting for other ranks"},
      {"failure_timeout", value::duration(1, 3600, seconds(1), &c->failure_timeout, " (seconds)"),
       "silence after which a switch, or another rank's host, counts as dead"},
      {"slow_warning", value::duration(1, 86400, seconds(1), &c->slow_warning, " (seconds)"),
       "time that a call waits for a rank, or a switch, before the log names it"},
      {"on_switch_failure", flag(&c->fallback, {"error", "fallback"}, "fallback"),
       "error: the group ends; fallback: hosts add in the place of a lost switch until it is back"},
      {"rto_min", value::duration(0.1, 60000, kMs, &c->rto_min, " (milliseconds), not above rto_max"),
       "least retransmission timeout (RTO)"},
      {"rto_max", value::duration(0.1, 60000, kMs, &c->rto_max, " (milliseconds), not below rto_min"),
       "largest retransmission timeout"},
      {"congestion_control", flag(&c->congestion_control, {"cubic", "off"}, "cubic"),
       "how many chunks are under way over UDP; cubic: as TCP would have, fair to other flows; off: all slots"},
  };
}

// All settings, stored in `c`. The defaults are those of a new Config.
std::vector<Option> table(Config* c) {
  std::vector<Option> rows = {
      {"switch",
       value::text(&c->switch_address, std::string(kSwitchesForm) + ", or empty",
                   [](const std::string& text) { return text.empty() || parse_switches(text).has_value(); }),
       "the software switch, or several for a part of each tensor; without a port 48879; empty: one host adds in "
       "memory, several add a part each"}};
  const auto add = [&rows](const std::vector<Option>& more) { rows.insert(rows.end(), more.begin(), more.end()); };
  add(controller_settings(c));
  add({
      {"transport",
       value::one_of({"auto", "shm", "udp", "tcp", "rdma"}, &c->transport,
                     "; shm not together with switch, controller or faults, tcp not with controller, rdma not with "
                     "faults"),
       "how ranks reach each other: shm through memory of the one host they are on, udp, tcp and rdma through a "
       "switch; auto: shm where it can be had and no switch is named, with a controller udp, else rdma where every "
       "host has a card and it reaches the switches, else udp, or tcp where links are fast"},
      {"encryption", encryption(&c->encryption),
       "whether packets are encrypted and authenticated; auto: between hosts, where all processors have instructions "
       "for AES, and the switches are in ranks or have a key; on: also without, or the group does not open"},
      {"switch_key_file", value::text(&c->switch_key_file, "the name of a file, or empty"),
       "a file that only its owner reads, with the key of the named switches, or of a controller's in software: 64 "
       "hexadecimal digits"},
      {"precision", precision(&c->precision),
       "how sums are added; auto: exactly, and rounded once, wherever software adds (twice where hosts have several "
       "ranks); integer: as a switching chip adds them, for the same bits with a chip and without one; exact: rounded "
       "once whatever the layout"},
      {"significant_bits",
       value::or_auto(&c->significant_bits, std::optional<int>(),
                      value::whole(0, kMostSignificantBits, &c->significant_bits)),
       "through an integer switch: a term of a sum of floats loses less than 2^-N of itself, in as many bits as its "
       "block needs for that, 16 to 64; auto: as 0, but float32 has at least 32 bits"},
      {"interface", value::text(&c->interface, "the name of a network interface, or empty"),
       "the interface whose address the other hosts are told; empty: the one by which the store is reached"},
      {"rdma_device", rdma_device(&c->rdma_device),
       "card for RDMA, its port, and the index of its address; empty: the card that has the address by which switches "
       "are reached"},
      {"rdma_traffic_class", value::whole(0, kMostTrafficClass, &c->rdma_traffic_class),
       "the byte of the IP header with DSCP and ECN, of what a card sends: four times the DSCP"},
      {"rdma_service_level", value::whole(0, kMostServiceLevel, &c->rdma_service_level),
       "the priority in a VLAN tag of what a card sends"},
      {"payload", value::or_auto(&c->payload_bytes, size_t{0}, value::payload_size(&c->payload_bytes)),
       "bytes of payload per packet; auto: the largest that the path carries"},
      {"slots", value::or_auto(&c->slots, 0, value::whole(kMinSlots, kMaxSlots, &c->slots)),
       "chunks in flight per job; auto: what switch and path take"},
      {"arena",
       value::or_auto(&c->arena_mib, std::optional<size_t>(), value::whole(0, kMaxArenaMib, &c->arena_mib, " (MiB)")),
       "tensors that each rank may allocate for all ranks of its host to see; auto: half of the machine's memory, "
       "over its ranks"},
      {"pinned_memory", value::whole(0, kMaxPinnedMib, &c->pinned_mib, " (MiB)"),
       "memory of the host that a group pins on a rank, at most, for tensors of an accelerator; what is beyond it is "
       "copied by way of other memory"},
      {"blocking_wait", flag(&c->blocking_wait, {"on", "off"}, "on"),
       "on: wait() for tensors of an accelerator returns when they are there; off: the caller's stream waits for their "
       "last copies"},
      {"shards", value::whole(1, kMaxShards, &c->shards),
       "engine threads per rank that sends, each with a socket and its part of the slots"},
      {"affinity", affinity(&c->affinity),
       "processors of the engine threads that send to a switch, one each; off: wherever the system puts them"},
      {"kernels", value::one_of({"auto", "scalar", "avx2", "avx512", "neon"}, &c->kernels),
       "instruction set of the quantizer and of exact sums, chosen once per process, by the variable; an option must "
       "name the same"},
  });
  add(time_settings(c));
  add({
      {"metrics",
       value::text(&c->metrics, "ADDRESS:PORT, the path of a folder, which begins with /, or empty",
                   [](const std::string& text) { return text.empty() || text[0] == '/' || is_host_port(text, 0); }),
       "metrics of this process for Prometheus: on the first free of the 128 ports from PORT on (0: any), or in a file "
       "for node_exporter; the first group's counts"},
      {"live_view",
       value::text(&c->live_view, "auto, off, or a folder in memory, as an absolute path",
                   [](const std::string& text) { return text == "auto" || text == "off" || text[0] == '/'; }),
       "where `python -m switchml status` finds what a process does; auto: /dev/shm, else $XDG_RUNTIME_DIR"},
      {"log_level", value::log_level(&c->log_level), "least severe level that is logged"},
      {"faults",
       value::text(&c->faults,
                   "NAME=VALUE,... of seed (a whole number) and send_loss, receive_loss, duplicate, delay, "
                   "corrupt (0 to 1), or empty",
                   [](const std::string& text) { return parse_faults(text).has_value(); }),
       "faults injected into a rank's transports, for tests"},
  });
  return rows;
}

std::string variable_of(const std::string& setting) {
  std::string name = kPrefix;
  for (const char c : setting) name += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return name;
}

// The setting of this name or variable; empty: none.
std::string setting_of(const std::string& written) {
  for (const SettingInfo& info : settings()) {
    if (written == info.name || written == variable_of(info.name)) return info.name;
  }
  return {};
}

bool begins_with(const std::string& text, const std::string& start) {
  return text.compare(0, start.size(), start) == 0;
}

Status bad_value(const std::string& written, const std::string& given, const std::string& allowed) {
  return not_allowed(written, is_secret(setting_of(written)) ? "(hidden)" : given, allowed);
}

Status unknown_option(const std::string& written) {
  std::string names;
  for (const SettingInfo& info : settings()) names += (names.empty() ? "" : ", ") + info.name;
  return {Code::kInvalidArgument, "there is no option \"" + written + "\": use one of " + names};
}

// The value of a setting, as a user writes it.
std::string value_in(Config config, const std::string& setting) {
  for (const Option& each : table(&config)) {
    if (each.name == setting) return each.value.print();
  }
  return {};
}

// A setting as the user wrote it: the name of the variable or option, and the value.
struct Entry {
  std::string name;
  std::string value;
};
using Written = std::map<std::string, Entry>;

// The entry of a setting that was written and is not empty; else null.
const Entry* entry_of(const std::string& setting, const Written& written) {
  const auto found = written.find(setting);
  return found == written.end() || found->second.value.empty() ? nullptr : &found->second;
}

Status apply(const Option& setting, const Entry& entry, Written* written) {
  constexpr size_t kMostBytes = 16384;  // Ranks tell each other some of them.
  if (entry.value.size() > kMostBytes)
    return bad_value(entry.name, entry.value, "at most " + std::to_string(kMostBytes) + " bytes");
  if (!setting.value.take(entry.value)) return bad_value(entry.name, entry.value, setting.value.allowed);
  (*written)[setting.name] = entry;
  return {};
}

// Two settings that exclude each other: blames the first if both are set.
Status check_exclusive(const char* one, const char* other, const Written& written) {
  const Entry* const a = entry_of(one, written);
  const Entry* const b = entry_of(other, written);
  if (a == nullptr || b == nullptr) return {};
  return bad_value(a->name, a->value, "only one of " + a->name + " and " + b->name);
}

// A setting that makes sense together with another one only: blames it if that one is not set.
Status check_needs(const char* one, const char* other, const Written& written) {
  const Entry* const a = entry_of(one, written);
  if (a == nullptr || entry_of(other, written) != nullptr) return {};
  return bad_value(a->name, a->value, "it together with " + variable_of(other) + ", which is not set");
}

// A value that makes no sense together with other settings: blames it if one of them is set.
Status check_excludes(const char* name, const std::vector<const char*>& others, const std::string& instead,
                      const Written& written) {
  for (const char* const each : others) {
    const Entry* const other = entry_of(each, written);
    const Entry& self = written.at(name);
    if (other != nullptr) return bad_value(self.name, self.value, instead + " together with " + other->name);
  }
  return {};
}

Status check_controller(const Written& written) {
  Status status = check_exclusive("controller", "switch", written);
  if (status.ok()) status = check_exclusive("controller_token", "controller_token_file", written);
  if (status.ok()) status = check_needs("controller_cert", "controller_key", written);
  if (status.ok()) status = check_needs("controller_key", "controller_cert", written);
  if (status.ok()) status = check_needs("controller_cert", "controller_ca", written);
  return status;
}

// One host has no switch, and nothing that could be lost on the way to it. A controller's switches know no TCP.
Status check_transport(const Config& config, const Written& written) {
  std::vector<std::string> others = {"auto", "udp"};
  if (entry_of("controller", written) == nullptr) others.emplace_back("tcp");
  if (entry_of("faults", written) == nullptr) others.emplace_back("rdma");
  const std::string instead = alternatives(others);
  if (config.transport == "tcp") return check_excludes("transport", {"controller"}, instead, written);
  if (config.transport == "rdma") return check_excludes("transport", {"faults"}, instead, written);
  if (config.transport != "shm") return {};
  Status status = check_excludes("transport", {"switch", "controller", "faults"}, instead, written);
  if (status.ok() && config.precision == Precision::kInteger)
    status = check_excludes("transport", {"precision"}, instead, written);
  return status;
}

Status check_relations(const Config& config, const Written& written) {
  if (Status status = check_transport(config, written); !status.ok()) return status;
  if (Status status = check_controller(written); !status.ok()) return status;
  if (config.rto_min <= config.rto_max) return {};
  // Blame what the user wrote; the other side may be a default.
  const bool low = entry_of("rto_min", written) != nullptr;
  const Entry& entry = written.at(low ? "rto_min" : "rto_max");
  const std::string bound = low ? "at most rto_max, which is " + value_in(config, "rto_max")
                                : "at least rto_min, which is " + value_in(config, "rto_min");
  return bad_value(entry.name, entry.value, bound + " (milliseconds)");
}

}  // namespace

const char* name_of(Precision precision) {
  switch (precision) {
    case Precision::kInteger: return "integer";
    case Precision::kExact: return "exact";
    default: return "auto";
  }
}

const char* name_of(Encryption encryption) {
  switch (encryption) {
    case Encryption::kOn: return "on";
    case Encryption::kOff: return "off";
    default: return "auto";
  }
}

std::optional<std::map<std::string, double>> parse_faults(const std::string& text) {
  static const std::set<std::string> probabilities = {"send_loss", "receive_loss", "duplicate", "delay", "corrupt"};
  std::map<std::string, double> faults;
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) {
    const size_t equals = item.find('=');
    if (equals == std::string::npos) return std::nullopt;
    const std::string name = item.substr(0, equals);
    std::optional<double> value;
    if (name == "seed") {
      const auto seed = parse_integer(item.substr(equals + 1), 0, 1L << 53);  // A double is exact up to there.
      if (seed) value = static_cast<double>(*seed);
    } else if (probabilities.count(name) != 0) {
      value = parse_real(item.substr(equals + 1), 0.0, 1.0);
    }
    if (!value || !faults.emplace(name, *value).second) return std::nullopt;
  }
  if (!text.empty() && (faults.empty() || text.back() == ',')) return std::nullopt;
  return faults;
}

const std::vector<SettingInfo>& settings() {
  static const std::vector<SettingInfo> infos = [] {
    Config defaults;
    std::vector<SettingInfo> out;
    for (const Option& each : table(&defaults))
      out.push_back({each.name, each.value.allowed, each.value.print(), each.help});
    return out;
  }();
  return infos;
}

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
}

Result<Config> load_config(const Environment& environment, const std::map<std::string, std::string>& options) {
  Config config;
  Written written;
  const std::vector<Option> rows = table(&config);
  for (const Option& setting : rows) {
    const std::string name = variable_of(setting.name);
    const auto value = environment(name);
    if (!value || value->empty()) continue;  // As in shell scripts, an empty variable counts as not set.
    if (Status status = apply(setting, {name, *value}, &written); !status.ok()) return status;
  }
  std::map<std::string, std::string> seen;
  for (const auto& [name, value] : options) {
    const std::string setting = setting_of(name);
    const auto same = [&setting](const Option& each) { return each.name == setting; };
    const auto row = std::find_if(rows.begin(), rows.end(), same);
    if (row == rows.end()) return unknown_option(name);
    const auto [first, fresh] = seen.emplace(setting, name);
    if (!fresh) return bad_value(name, value, "only one of " + first->second + " and " + name);
    if (Status status = apply(*row, {name, value}, &written); !status.ok()) return status;
  }
  if (Status status = check_relations(config, written); !status.ok()) return status;
  return config;
}

std::string describe(const Config& config) {
  Config shown = config;
  std::string text;
  const std::vector<Option> rows = table(&shown);
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string value = rows[i].value.print();
    text += (text.empty() ? "" : " ") + rows[i].name + "=" + (value.empty() ? "none" : value);
    if (value != settings()[i].default_value) text += " (" + variable_of(rows[i].name) + ")";
  }
  return text;
}

std::vector<std::string> unknown_variables(const std::vector<std::string>& names) {
  std::vector<std::string> unknown;
  for (const std::string& name : names) {
    if (!begins_with(name, kPrefix) || !setting_of(name).empty()) continue;
    // These belong to setup.py and to tests.
    if (begins_with(name, "SWITCHML_BUILD_") || begins_with(name, "SWITCHML_TEST_") || name == "SWITCHML_GTESTS")
      continue;
    unknown.push_back(name);
  }
  return unknown;
}

std::vector<std::string> process_variables() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    names.push_back(text.substr(0, text.find('=')));
  }
  return names;
}

}  // namespace switchml
