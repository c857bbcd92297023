#include "switchd/options.h"

#include <optional>

#include "base/command_line.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/payload_size.h"

namespace switchml {

namespace {

enum Option {
  kHelp = 1000,
  kVersion,
  kListen,
  kThreads,
  kSlots,
  kClientJobs,
  kClientSlots,
  kMaxPayload,
  kLease,
  kSilence,
  kLogLevel,
  kStatsInterval,
  kInsecureNoToken,
  kAgent,
  kAgentTokenFile,
  kAgentCertificate,
  kAgentKey,
};

constexpr option kOptions[] = {
    {"help", no_argument, nullptr, kHelp},
    {"version", no_argument, nullptr, kVersion},
    {"listen", required_argument, nullptr, kListen},
    {"threads", required_argument, nullptr, kThreads},
    {"slots", required_argument, nullptr, kSlots},
    {"client-jobs", required_argument, nullptr, kClientJobs},
    {"client-slots", required_argument, nullptr, kClientSlots},
    {"max-payload", required_argument, nullptr, kMaxPayload},
    {"lease", required_argument, nullptr, kLease},
    {"silence", required_argument, nullptr, kSilence},
    {"log-level", required_argument, nullptr, kLogLevel},
    {"stats-interval", required_argument, nullptr, kStatsInterval},
    {"agent", required_argument, nullptr, kAgent},
    {"agent-token-file", required_argument, nullptr, kAgentTokenFile},
    {"insecure-no-token", no_argument, nullptr, kInsecureNoToken},
    {"agent-cert", required_argument, nullptr, kAgentCertificate},
    {"agent-key", required_argument, nullptr, kAgentKey},
    {nullptr, 0, nullptr, 0},
};

constexpr const char* kThreadsAllowed = "1 to 64";
constexpr const char* kSlotsAllowed = "1 to 1048576 (MiB of memory for the slots of all jobs)";
constexpr const char* kPayloadAllowed = "256, 512, a multiple of 128 from 1024 to 2048, or of 1024 up to 64512 (bytes)";
constexpr const char* kTimeAllowed = "1 to 86400 (seconds)";
constexpr const char* kClientJobsAllowed = "1 to 255";
constexpr int kClientJobsPreset = 128;
constexpr const char* kLevelAllowed = "debug, info, warning, error or off";
constexpr const char* kIntervalAllowed = "0 (never) to 86400 (seconds)";

/// "ADDRESS:PORT".
bool has_port(const std::string& text) {
  const size_t colon = text.rfind(':');
  return colon != std::string::npos && colon > 0 && parse_integer(text.substr(colon + 1), 0, 65535).has_value();
}

Status bad(const std::string& name, const std::string& value, const std::string& allowed) {
  return {Code::kInvalidArgument, "--" + name + "=\"" + value + "\" is not allowed: use " + allowed};
}

Status apply_agent(int index, const std::string& text, AgentLine* agent) {
  const int choice = kOptions[index].val;
  if (choice == kAgent && !has_port(text)) return bad(kOptions[index].name, text, "ADDRESS:PORT");
  if (text.empty()) return bad(kOptions[index].name, text, "the name of a file");
  switch (choice) {
    case kAgent: agent->listen = text; break;
    case kAgentTokenFile: agent->token_file = text; break;
    case kAgentCertificate: agent->certificate_file = text; break;
    case kAgentKey: agent->key_file = text; break;
  }
  return {};
}

Status check_agent(const AgentLine& agent) {
  const bool extras = !agent.token_file.empty() || agent.insecure_no_token || !agent.certificate_file.empty() ||
                      !agent.key_file.empty();
  if (agent.listen.empty()) {
    if (!extras) return {};
    return {Code::kInvalidArgument,
            "--agent-token-file, --insecure-no-token, --agent-cert and --agent-key need --agent ADDRESS:PORT"};
  }
  if (agent.token_file.empty() != agent.insecure_no_token) {
    return {Code::kInvalidArgument, "--agent=\"" + agent.listen +
                                        "\": give either --agent-token-file FILE, or --insecure-no-token to let "
                                        "everybody who reaches it rule this switch"};
  }
  if (agent.certificate_file.empty() != agent.key_file.empty()) {
    return {Code::kInvalidArgument, "--agent-cert and --agent-key go together: give both or none"};
  }
  return {};
}

// An option with a value. The caller has handled those without.
Status apply(int index, const std::string& text, CommandLine* line) {
  std::optional<long> value;
  const char* allowed = "";
  if (kOptions[index].val >= kAgent) return apply_agent(index, text, &line->agent);
  switch (kOptions[index].val) {
    case kListen:
      if (text.empty()) return bad("listen", text, "ADDRESS:PORT or ADDRESS");
      line->listen = text;
      return {};
    case kThreads:
      allowed = kThreadsAllowed;
      value = parse_integer(text, 1, kMaxSwitchThreads);
      if (value) line->server.threads = static_cast<int>(*value);
      break;
    case kSlots:
      allowed = kSlotsAllowed;
      value = parse_integer(text, 1, 1048576);
      if (value) line->server.softswitch.slot_memory_bytes = static_cast<size_t>(*value) << 20;
      break;
    case kClientJobs:
      allowed = kClientJobsAllowed;
      value = parse_integer(text, 1, kMaxJobs);
      if (value) line->server.softswitch.client_jobs = static_cast<int>(*value);
      break;
    case kClientSlots:
      allowed = kSlotsAllowed;
      value = parse_integer(text, 1, 1048576);
      if (value) line->server.softswitch.client_memory_bytes = static_cast<size_t>(*value) << 20;
      break;
    case kMaxPayload:
      allowed = kPayloadAllowed;
      value = parse_payload_size(text);
      if (value) line->server.softswitch.max_payload_bytes = static_cast<size_t>(*value);
      break;
    case kLease:
      allowed = kTimeAllowed;
      value = parse_integer(text, 1, 86400);
      if (value) line->server.softswitch.lease = seconds(*value);
      break;
    case kSilence:
      allowed = kTimeAllowed;
      value = parse_integer(text, 1, 86400);
      if (value) line->server.softswitch.silence = seconds(*value);
      break;
    case kLogLevel:
      allowed = kLevelAllowed;
      if (const auto level = parse_log_level(text)) {
        line->log_level = *level;
        return {};
      }
      break;
    case kStatsInterval:
      allowed = kIntervalAllowed;
      value = parse_integer(text, 0, 86400);
      if (value) line->stats_interval = seconds(*value);
      break;
  }
  return value ? Status{} : bad(kOptions[index].name, text, allowed);
}

}  // namespace

Result<CommandLine> parse_command_line(int argc, char* const* argv) {
  CommandLine line;
  line.server.softswitch.client_jobs = kClientJobsPreset;
  line.server.softswitch.client_memory_bytes = 0;
  const Status scanned = scan_options(argc, argv, kOptions, [&line](int index, const std::string& text) -> Status {
    const int choice = index < 0 ? int{kHelp} : kOptions[index].val;
    if (choice == kHelp) line.help = true;
    if (choice == kVersion) line.version = true;
    if (choice == kInsecureNoToken) line.agent.insecure_no_token = true;
    const bool bare = choice == kHelp || choice == kVersion || choice == kInsecureNoToken;
    return bare ? Status{} : apply(index, text, &line);
  });
  if (!scanned.ok()) return scanned;
  if (Status status = check_agent(line.agent); !status.ok()) return status;
  softswitch::SwitchOptions& limits = line.server.softswitch;
  if (limits.client_memory_bytes == 0) limits.client_memory_bytes = limits.slot_memory_bytes / 2;
  return line;
}

std::string help_text() {
  return std::string(
             "usage: switchml-switchd [OPTION]...\n"
             "Sums the gradients of switchml workers: a software switch on a UDP port.\n"
             "Workers find it through SWITCHML_SWITCH=ADDRESS:PORT.\n"
             "\n"
             "  --listen ADDRESS:PORT  where to listen; port 0 takes a free one (0.0.0.0:48879)\n"
             "  --threads N            threads that receive and send on the port: ") +
         kThreadsAllowed +
         " (1)\n"
         "  --slots MIB            " +
         kSlotsAllowed +
         " (256)\n"
         "  --client-jobs N        jobs that one host may have opened at a time: 1 to 255 (128)\n"
         "  --client-slots MIB     slot memory of all jobs that one host has opened (half of --slots)\n"
         "  --max-payload BYTES    largest payload per packet: " +
         kPayloadAllowed +
         " (64512)\n"
         "  --lease SECONDS        a job none of whose workers is heard for this long ends: " +
         kTimeAllowed +
         " (1800)\n"
         "  --silence SECONDS      or for this long (half of the lease at most) where others need its room: " +
         kTimeAllowed +
         " (15)\n"
         "  --log-level LEVEL      " +
         kLevelAllowed +
         " (warning)\n"
         "  --stats-interval S     log the counters this often, at level info: " +
         kIntervalAllowed +
         " (0)\n"
         "  --agent ADDRESS:PORT   obey a controller (switchml-controller) that calls there; port 0 takes a free one\n"
         "  --agent-token-file F   what the controller must show: the first word of this file\n"
         "  --insecure-no-token    or nothing: everybody who reaches the agent may rule this switch\n"
         "  --agent-cert FILE      TLS towards the controller: certificate (PEM); with\n"
         "  --agent-key FILE       its key\n"
         "  --version              print the version and leave\n"
         "  --help                 print this and leave\n"
         "\n"
         "Prints one line `listening on ADDRESS:PORT` when it is ready, with --agent a second one, `agent on\n"
         "ADDRESS:PORT`. SIGTERM and SIGINT end it with status 0.\n"
         "Bad arguments end it with status 2, a port that cannot be had with status 1.\n";
}

}  // namespace switchml
