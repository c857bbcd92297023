#include "session/encryption.h"

#include "base/log.h"
#include "client/switch_address.h"

namespace switchml {

namespace {

/// Why links to the group's switches cannot be sealed, and what to do; empty: they can.
std::string why_no_key(const Config& config) {
  if (!names_switches(config)) return "";
  if (config.transport == "rdma" && !config.controller.empty()) {
    return "a switching chip, which queue pairs under a controller end at, decrypts nothing: set SWITCHML_TRANSPORT to "
           "udp";
  }
  if (!config.switch_key_file.empty()) return "";
  const std::string which = config.switch_address.empty() ? "SWITCHML_CONTROLLER=\"" + config.controller
                                                          : "SWITCHML_SWITCH=\"" + config.switch_address;
  return which +
         "\" names a switch whose key is not known: give the same file to switchml-switchd (--key-file) and to "
         "all ranks (SWITCHML_SWITCH_KEY_FILE); a switching chip has no key, and decrypts nothing";
}

// Slow encryption is better than none only where it is asked for.
std::string why_slow(const Roster& roster) {
  if (!roster.without_aes) return "";
  return "the processor of rank " + std::to_string(*roster.without_aes) +
         " has no instructions for AES: SWITCHML_ENCRYPTION=on encrypts all the same";
}

void log_plain(const std::string& group, const std::string& what, const std::string& why) {
  SWITCHML_LOG(kInfo) << group << ": " << what << " is not encrypted: " << why;
}

// A switch with a key hears nothing else.
Seals choose_by_itself(const Config& config, const Roster& roster, const std::string& group) {
  Seals seals;
  const std::string keyless = why_no_key(config), slow = why_slow(roster);
  const bool leaves_hosts = !roster.one_host();
  const bool has_key = names_switches(config) && keyless.empty();
  seals.switches = has_key || (leaves_hosts && keyless.empty() && slow.empty());
  seals.ranks = leaves_hosts && (slow.empty() || seals.switches);
  if (!leaves_hosts) return seals;
  if (!seals.switches) log_plain(group, "what goes to its switches", keyless.empty() ? slow : keyless);
  if (!seals.ranks) log_plain(group, "what ranks send each other", slow);
  return seals;
}

}  // namespace

void Seals::write(Blob* blob) const {
  if (switches) blob->set("seals_switches", 1);
  if (ranks) blob->set("seals_ranks", 1);
}

Seals Seals::read(const Blob& blob) {
  Seals seals;
  seals.switches = blob.text("seals_switches") == "1";
  seals.ranks = blob.text("seals_ranks") == "1";
  return seals;
}

Result<Seals> choose_seals(const Config& config, const Roster& roster, const std::string& group) {
  if (roster.encryption == Encryption::kOff) return Seals();
  if (roster.encryption == Encryption::kAuto) return choose_by_itself(config, roster, group);
  const std::string why = why_no_key(config);
  if (!why.empty()) return Status(Code::kInvalidArgument, "SWITCHML_ENCRYPTION=\"on\" cannot be had: " + why);
  return Seals{true, true};
}

}  // namespace switchml
