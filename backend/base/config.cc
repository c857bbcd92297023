#include "base/config.h"

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <set>
#include <sstream>

#include "base/limits.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/payload_size.h"
#include "base/processors.h"
#include "base/secret.h"

namespace switchml {

namespace {

constexpr const char* kPrefix = "SWITCHML_";

// ---- numbers: the whole text must be one, nothing before or after it ----

std::optional<double> parse_real(const std::string& text, double low, double high) {
  if (text.empty() || text.find_first_not_of("0123456789.eE+-") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end != text.c_str() + text.size() || !std::isfinite(value) || value < low || value > high) return std::nullopt;
  return value;
}

std::optional<Duration> parse_duration(const std::string& text, double low, double high, Duration unit) {
  const auto value = parse_real(text, low, high);
  if (!value) return std::nullopt;
  return Duration(static_cast<Duration::rep>(*value * static_cast<double>(unit.count())));
}

std::string format_real(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

// ---- one parser and one printer per setting; a parser leaves the configuration alone when it returns false ----

bool assign(std::string* field, const std::string& text) {
  *field = text;
  return true;
}

template <typename T, typename U>
bool assign(T* field, const std::optional<U>& value) {
  if (!value) return false;
  *field = static_cast<T>(*value);
  return true;
}

bool parse_payload(const std::string& text, Config* config) {
  if (text == "auto") return assign(&config->payload_bytes, std::optional<long>(0));
  return assign(&config->payload_bytes, parse_payload_size(text));
}

bool parse_slots(const std::string& text, Config* config) {
  if (text == "auto") return assign(&config->slots, std::optional<long>(0));
  return assign(&config->slots, parse_integer(text, kMinSlots, kMaxSlots));
}

bool parse_arena(const std::string& text, Config* config) {
  if (text == "auto") {
    config->arena_mib.reset();
    return true;
  }
  return assign(&config->arena_mib, parse_integer(text, 0, kMaxArenaMib));
}

bool parse_token(const std::string& text, Config* config) {
  return (text.empty() || printable_secret(text)) && assign(&config->controller_token, text);
}

bool parse_transport(const std::string& text, Config* config) {
  static const std::set<std::string> names = {"auto", "shm", "udp", "tcp"};
  return names.count(text) != 0 && assign(&config->transport, text);
}

bool parse_precision(const std::string& text, Config* config) {
  if (text != "auto" && text != "integer" && text != "exact") return false;
  config->integers = text == "integer";
  config->exact = text == "exact";
  return true;
}

bool parse_kernels(const std::string& text, Config* config) {
  static const std::set<std::string> names = {"auto", "scalar", "avx2", "avx512", "neon"};
  return names.count(text) != 0 && assign(&config->kernels, text);
}

bool parse_affinity(const std::string& text, Config* config) {
  if (text == "auto") {
    SWITCHML_LOG(kWarning) << "SWITCHML_AFFINITY=auto is off now: name processors, or let the launcher place processes";
    return assign(&config->affinity, "off");
  }
  return (text == "off" || parse_processor_list(text).has_value()) && assign(&config->affinity, text);
}

struct Setting {
  SettingInfo info;
  bool (*parse)(const std::string& text, Config* config);
  std::string (*print)(const Config& config);
};

/// A setting that is any text.
template <std::string Config::*field>
Setting text_setting(const SettingInfo& info) {
  return {info, [](const std::string& text, Config* config) { return assign(&(config->*field), text); },
          [](const Config& config) { return config.*field; }};
}

const std::vector<Setting>& table() {
  static const std::vector<Setting> rows = {
      text_setting<&Config::switch_address>(
          {"switch", "ADDRESS:PORT, several with commas between them and *WEIGHT behind each, or empty", "",
           "the switch, or several for a part of each tensor; empty: one host adds in memory, several add a part "
           "each"}),
      text_setting<&Config::controller>({"controller", "ADDRESS:PORT, or empty; not together with switch", "",
                                         "a switchml-controller that says where the switches are"}),
      {{"controller_token", "printable ASCII without blanks, or empty; not together with controller_token_file", "",
        "says to the controller who is asking"},
       parse_token,
       [](const Config& c) { return std::string(c.controller_token.empty() ? "" : "hidden"); }},
      text_setting<&Config::controller_token_file>(
          {"controller_token_file", "the name of a file, or empty", "", "a file whose first line is the token"}),
      text_setting<&Config::controller_ca>(
          {"controller_ca", "the name of a PEM file, or empty (no TLS)", "",
           "the authorities that vouch for the controller; with it the connection uses TLS"}),
      text_setting<&Config::controller_cert>(
          {"controller_cert", "the name of a PEM file, together with controller_key and controller_ca, or empty", "",
           "the certificate that is shown to the controller"}),
      text_setting<&Config::controller_key>(
          {"controller_key", "the name of a PEM file, together with controller_cert and controller_ca, or empty", "",
           "the key of that certificate"}),
      {{"transport",
        "auto, shm, udp or tcp; shm not together with switch, controller or faults, tcp not with controller", "auto",
        "how ranks reach each other: shm through memory of the one host they are on, udp and tcp through a switch; "
        "auto: shm where it can be had and no switch is named, else udp, or tcp where links are fast"},
       parse_transport,
       [](const Config& c) { return c.transport; }},
      {{"precision", "auto, integer or exact; integer not together with transport=shm, exact not with controller",
        "auto",
        "how sums are added; auto: exactly, and rounded once, wherever software adds (twice where hosts have several "
        "ranks); integer: as a switching chip adds them, for the same bits with a chip and without one; exact: rounded "
        "once whatever the layout"},
       parse_precision,
       [](const Config& c) { return std::string(c.precision()); }},
      text_setting<&Config::interface>(
          {"interface", "the name of a network interface, or empty", "",
           "interface whose address an embedded switch announces; empty: the default route's"}),
      {{"payload", "auto, 256, 512, a multiple of 128 from 1024 to 2048, or of 1024 up to 64512", "auto",
        "bytes of payload per packet; auto: the largest that the path carries"},
       parse_payload,
       [](const Config& c) { return c.payload_bytes == 0 ? "auto" : std::to_string(c.payload_bytes); }},
      {{"slots", "auto, or 4 to 4096", "auto", "slots of a job"},
       parse_slots,
       [](const Config& c) { return c.slots == 0 ? "auto" : std::to_string(c.slots); }},
      {{"arena", "auto, or 0 to 65536 (MiB)", "auto",
        "tensors that each rank may allocate for all ranks of its host to see; auto: its part of half of the memory"},
       parse_arena,
       [](const Config& c) { return c.arena_mib ? std::to_string(*c.arena_mib) : "auto"; }},
      {{"shards", "1 to 16", "1", "engine threads of a rank"},
       [](const std::string& t, Config* c) { return assign(&c->shards, parse_integer(t, 1, kMaxShards)); },
       [](const Config& c) { return std::to_string(c.shards); }},
      {{"affinity", "off, or a list of processors (0-3,8)", "off",
        "processors of the engine threads that send to a switch, one each; off: wherever the system puts them"},
       parse_affinity,
       [](const Config& c) { return c.affinity; }},
      {{"kernels", "auto, scalar, avx2, avx512 or neon", "auto", "instruction set of the quantizer"},
       parse_kernels,
       [](const Config& c) { return c.kernels; }},
      {{"connect_timeout", "0.1 to 3600 (seconds)", "30", "time to find and join a switch"},
       [](const std::string& t, Config* c) {
         return assign(&c->connect_timeout, parse_duration(t, 0.1, 3600, seconds(1)));
       },
       [](const Config& c) { return format_real(to_seconds(c.connect_timeout)); }},
      {{"failure_timeout", "1 to 3600 (seconds)", "10",
        "silence after which a switch, or another rank's host, is taken for dead"},
       [](const std::string& t, Config* c) {
         return assign(&c->failure_timeout, parse_duration(t, 1, 3600, seconds(1)));
       },
       [](const Config& c) { return format_real(to_seconds(c.failure_timeout)); }},
      {{"on_switch_failure", "error or fallback", "error",
        "fallback: where the switch is lost, hosts add in its place, from what is under way on, until it is back"},
       [](const std::string& t, Config* c) {
         return (t == "error" || t == "fallback") && assign(&c->fallback, std::optional<bool>(t == "fallback"));
       },
       [](const Config& c) { return std::string(c.fallback ? "fallback" : "error"); }},
      {{"rto_min", "0.1 to 60000 (milliseconds), not above rto_max", "5", "least retransmission timeout"},
       [](const std::string& t, Config* c) {
         return assign(&c->rto_min, parse_duration(t, 0.1, 60000, milliseconds(1)));
       },
       [](const Config& c) { return format_real(to_seconds(c.rto_min) * 1e3); }},
      {{"rto_max", "0.1 to 60000 (milliseconds), not below rto_min", "200", "largest retransmission timeout"},
       [](const std::string& t, Config* c) {
         return assign(&c->rto_max, parse_duration(t, 0.1, 60000, milliseconds(1)));
       },
       [](const Config& c) { return format_real(to_seconds(c.rto_max) * 1e3); }},
      {{"log_level", "debug, info, warning, error or off", "warning", "least severe messages that are logged"},
       [](const std::string& t, Config* c) { return assign(&c->log_level, parse_log_level(t)); },
       [](const Config& c) { return std::string(to_string(c.log_level)); }},
      {{"faults",
        "NAME=VALUE,... of seed (a whole number) and send_loss, receive_loss, duplicate, delay, corrupt (0 to 1), "
        "or empty",
        "", "faults injected into a rank's transports, for tests"},
       [](const std::string& t, Config* c) { return parse_faults(t).has_value() && assign(&c->faults, t); },
       [](const Config& c) { return c.faults; }},
  };
  return rows;
}

std::string variable_of(const Setting& setting) {
  std::string name = kPrefix;
  for (const char* p = setting.info.name; *p != '\0'; ++p) {
    name += *p >= 'a' && *p <= 'z' ? static_cast<char>(*p - 'a' + 'A') : *p;
  }
  return name;
}

const Setting* find_setting(const std::string& written) {
  for (const Setting& setting : table()) {
    if (written == setting.info.name || written == variable_of(setting)) return &setting;
  }
  return nullptr;
}

bool begins_with(const std::string& text, const std::string& start) {
  return text.compare(0, start.size(), start) == 0;
}

Status bad_value(const std::string& written, const std::string& given, const std::string& allowed) {
  const Setting* setting = find_setting(written);
  const bool secret = setting != nullptr && std::string(setting->info.name) == "controller_token";
  const std::string value = secret ? "(hidden)" : given;
  return {Code::kInvalidArgument, written + "=\"" + value + "\" is not allowed: use " + allowed};
}

Status unknown_option(const std::string& written) {
  std::string names;
  for (const Setting& setting : table()) names += (names.empty() ? "" : ", ") + std::string(setting.info.name);
  return {Code::kInvalidArgument, "there is no option \"" + written + "\": use one of " + names};
}

// What the user wrote for a setting: where, and which value.
using Written = std::map<const Setting*, std::pair<std::string, std::string>>;

Status apply(const Setting& setting, const std::string& name, const std::string& value, Config* config,
             Written* written) {
  if (!setting.parse(value, config)) return bad_value(name, value, setting.info.allowed);
  (*written)[&setting] = {name, value};
  return {};
}

// Two settings that exclude each other: blames the first if both are set.
Status check_exclusive(const char* one, const char* other, const Written& written) {
  const auto a = written.find(find_setting(one));
  const auto b = written.find(find_setting(other));
  if (a == written.end() || b == written.end() || a->second.second.empty() || b->second.second.empty()) return {};
  return bad_value(a->second.first, a->second.second, "only one of " + a->second.first + " and " + b->second.first);
}

// A setting that makes sense together with another one only: blames it if that one is not set.
Status check_needs(const char* one, const char* other, const Written& written) {
  const auto a = written.find(find_setting(one));
  const auto b = written.find(find_setting(other));
  if (a == written.end() || a->second.second.empty()) return {};
  if (b != written.end() && !b->second.second.empty()) return {};
  return bad_value(a->second.first, a->second.second,
                   "it together with " + variable_of(*find_setting(other)) + ", which is not set");
}

// A setting whose value makes no sense together with others: blames it if one of them is set.
Status check_excludes(const char* name, const std::vector<const char*>& others, const std::string& instead,
                      const Written& written) {
  for (const char* other : others) {
    const auto found = written.find(find_setting(other));
    if (found == written.end() || found->second.second.empty()) continue;
    const auto& [written_name, value] = written.at(find_setting(name));
    return bad_value(written_name, value, instead + " together with " + found->second.first);
  }
  return {};
}

Status check_controller(const Config& config, const Written& written) {
  Status status = check_exclusive("controller", "switch", written);
  if (status.ok()) status = check_exclusive("controller_token", "controller_token_file", written);
  if (status.ok() && config.exact) status = check_excludes("precision", {"controller"}, "auto or integer", written);
  if (status.ok()) status = check_needs("controller_cert", "controller_key", written);
  if (status.ok()) status = check_needs("controller_key", "controller_cert", written);
  if (status.ok()) status = check_needs("controller_cert", "controller_ca", written);
  return status;
}

// One host has no switch, and nothing that could be lost on the way to it. A controller's switches know UDP only.
Status check_transport(const Config& config, const Written& written) {
  const char* const instead = "auto or udp";
  if (config.transport == "tcp") return check_excludes("transport", {"controller"}, instead, written);
  if (config.transport != "shm") return {};
  Status status = check_excludes("transport", {"switch", "controller", "faults"}, instead, written);
  if (status.ok() && config.integers) status = check_excludes("transport", {"precision"}, instead, written);
  return status;
}

Status check_relations(const Config& config, const Written& written) {
  if (Status status = check_transport(config, written); !status.ok()) return status;
  if (Status status = check_controller(config, written); !status.ok()) return status;
  if (config.rto_min <= config.rto_max) return {};
  // Blame what the user wrote; the other side may be a default.
  const Setting* low = find_setting("rto_min");
  const Setting* high = find_setting("rto_max");
  const auto wrote_low = written.find(low);
  if (wrote_low != written.end()) {
    return bad_value(wrote_low->second.first, wrote_low->second.second,
                     "at most rto_max, which is " + high->print(config) + " (milliseconds)");
  }
  const auto& wrote_high = written.at(high);
  return bad_value(wrote_high.first, wrote_high.second,
                   "at least rto_min, which is " + low->print(config) + " (milliseconds)");
}

}  // namespace

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
      const auto seed = parse_integer(item.substr(equals + 1), 0, 1L << 53);  // what a double holds exactly
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
    std::vector<SettingInfo> out;
    for (const Setting& setting : table()) out.push_back(setting.info);
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
  for (const Setting& setting : table()) {
    const std::string name = variable_of(setting);
    const auto value = environment(name);
    if (!value || value->empty()) continue;  // an empty variable is one that is not set, as in a shell script
    if (Status status = apply(setting, name, *value, &config, &written); !status.ok()) return status;
  }
  std::map<const Setting*, std::string> seen;
  for (const auto& [name, value] : options) {
    const Setting* setting = find_setting(name);
    if (setting == nullptr) return unknown_option(name);
    if (!seen.emplace(setting, name).second) {
      return bad_value(name, value, "only one of " + seen[setting] + " and " + name);
    }
    if (Status status = apply(*setting, name, value, &config, &written); !status.ok()) return status;
  }
  if (Status status = check_relations(config, written); !status.ok()) return status;
  return config;
}

std::string describe(const Config& config) {
  std::string text;
  for (const Setting& setting : table()) {
    const std::string value = setting.print(config);
    text += (text.empty() ? "" : " ") + std::string(setting.info.name) + "=" + (value.empty() ? "none" : value);
    if (value != setting.info.default_value) text += " (" + variable_of(setting) + ")";
  }
  return text;
}

std::vector<std::string> unknown_variables(const std::vector<std::string>& names) {
  std::vector<std::string> unknown;
  for (const std::string& name : names) {
    if (!begins_with(name, kPrefix) || find_setting(name) != nullptr) continue;
    if (name == "SWITCHML_BUILD_DIR" || begins_with(name, "SWITCHML_TEST_")) continue;
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
