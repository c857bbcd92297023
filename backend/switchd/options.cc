#include "switchd/options.h"

#include "base/command_line.h"
#include "base/limits.h"
#include "switchd/key_file.h"

namespace switchml {

namespace {

constexpr int kClientJobsPreset = 128;

CommandLine presets() {
  CommandLine line;
  line.server.card = ServerOptions::CardUse::kIfThereIsOne;
  line.server.softswitch.client_jobs = kClientJobsPreset;
  line.server.softswitch.client_memory_bytes = 0;  // Half of the whole.
  return line;
}

// The name of a device, like "on", requires a card.
OptionValue rdma(ServerOptions* server) {
  using CardUse = ServerOptions::CardUse;
  OptionValue value;
  value.placeholder = "CARD";
  value.allowed = std::string("auto, on, off, or ") + kPortWishForm;
  value.take = [server](const std::string& text) {
    PortWish wish;
    if (text.empty() || !parse_port_wish(text, &wish)) return false;
    const bool named = text != "auto" && text != "on" && text != "off";
    server->card = text == "auto" ? CardUse::kIfThereIsOne : text == "off" ? CardUse::kNone : CardUse::kMust;
    if (!named) wish = PortWish();
    wish.traffic_class = server->card_port.traffic_class;
    wish.service_level = server->card_port.service_level;
    server->card_port = wish;
    return true;
  };
  value.print = [server] {
    if (!server->card_port.device.empty()) return server->card_port.device;
    return std::string(server->card == CardUse::kIfThereIsOne ? "auto" : server->card == CardUse::kNone ? "off" : "on");
  };
  return value;
}

std::vector<Option> table(CommandLine* line) {
  softswitch::SwitchOptions& limits = line->server.softswitch;
  return {
      {"listen", value::word("ADDRESS:PORT", &line->listen), "where to listen; port 0 takes a free one"},
      {"key-file", value::word("FILE", &line->key_file),
       "seal all packets, encrypted and authenticated, with a key: 64 hexadecimal digits in a file that only its owner "
       "may read. Workers name theirs in SWITCHML_SWITCH_KEY_FILE"},
      {"rdma", rdma(&line->server),
       "the card by which workers may come; auto: one that has the address it listens on, if there is one"},
      {"rdma-traffic-class", value::whole(0, kMostTrafficClass, &line->server.card_port.traffic_class),
       "traffic class of what the card sends: four times the DSCP"},
      {"rdma-service-level", value::whole(0, kMostServiceLevel, &line->server.card_port.service_level),
       "service level of what the card sends: the priority in a VLAN tag"},
      {"slots", value::mebibytes(1, 1048576, &limits.slot_memory_bytes, " (MiB)"), "memory for the slots of all jobs"},
      {"client-jobs", value::whole(1, kMaxJobs, &limits.client_jobs), "jobs that one host may have opened at a time"},
      {"client-slots", value::mebibytes(1, 1048576, &limits.client_memory_bytes, " (MiB)"),
       "slot memory of all jobs that one host has opened", "half of --slots"},
      {"max-payload", value::payload_size(&limits.max_payload_bytes), "largest payload per packet"},
      {"integers", value::flag(&limits.integers), "add integers only, as a switching chip does"},
      {"lease", value::whole_seconds(1, 86400, &limits.lease),
       "a job none of whose workers is heard for this long ends"},
      {"silence", value::whole_seconds(1, 86400, &limits.silence),
       "or for this long (half of the lease at most) where others need its room"},
      {"log-level", value::log_level(&line->log_level), "least severe messages that are logged"},
      {"stats-interval", value::whole_seconds(0, 86400, &line->stats_interval),
       "log the counters this often, at level info; 0: never"},
      {"agent", value::host_port(&line->agent.listen),
       "obey a controller (switchml-controller) that calls there; port 0 takes a free one"},
      {"agent-token-file", value::secret_file(&line->agent.token),
       "what the controller must show: the first word of this file"},
      {"insecure-no-token", value::flag(&line->insecure_no_token),
       "or nothing: everybody who reaches the agent may rule this switch"},
      {"agent-cert", value::pem_file(&line->agent.certificate), "TLS towards the controller: certificate (PEM); with"},
      {"agent-key", value::pem_file(&line->agent.key), "its key"},
      {"version", value::flag(&line->version), "print the version and leave"},
      {"help", value::flag(&line->help), "print this and leave"},
  };
}

Status read_key(CommandLine* line) {
  if (line->key_file.empty()) return {};
  const auto key = read_key_file("--key-file", line->key_file);
  if (key.ok()) line->server.seal = key.value();
  return key.ok() ? Status() : key.status();
}

Status check_agent(const AgentOptions& agent, bool insecure) {
  const bool extras = !agent.token.empty() || insecure || !agent.certificate.empty() || !agent.key.empty();
  if (agent.listen.empty()) {
    if (!extras) return {};
    return {Code::kInvalidArgument,
            "--agent-token-file, --insecure-no-token, --agent-cert and --agent-key need --agent ADDRESS:PORT"};
  }
  if (agent.token.empty() != insecure) {
    return {Code::kInvalidArgument, "--agent=\"" + agent.listen +
                                        "\": give either --agent-token-file FILE, or --insecure-no-token to let "
                                        "everybody who reaches it rule this switch"};
  }
  if (agent.certificate.empty() != agent.key.empty()) {
    return {Code::kInvalidArgument, "--agent-cert and --agent-key go together: give both or none"};
  }
  return {};
}

}  // namespace

Result<CommandLine> parse_command_line(int argc, char* const* argv) {
  CommandLine line = presets();
  const auto given = parse_options(argc, argv, table(&line));
  if (!given.ok()) return given.status();
  if (line.help || line.version) return line;
  if (Status status = check_agent(line.agent, line.insecure_no_token); !status.ok()) return status;
  if (!line.agent.listen.empty() && line.server.card == ServerOptions::CardUse::kMust) {
    return Status(Code::kInvalidArgument,
                  "--rdma and --agent exclude each other: a controller's workers come to a switch in software by UDP");
  }
  if (Status status = read_key(&line); !status.ok()) return status;
  softswitch::SwitchOptions& limits = line.server.softswitch;
  if (limits.client_memory_bytes == 0) limits.client_memory_bytes = limits.slot_memory_bytes / 2;
  return line;
}

std::string help_text() {
  CommandLine line = presets();
  return "usage: switchml-switchd [OPTION]...\n"
         "Sums the gradients of switchml workers: a software switch, by UDP, TCP and RDMA.\n"
         "Workers find it through SWITCHML_SWITCH=ADDRESS:PORT.\n"
         "\n" +
         options_text(table(&line)) +
         "\n"
         "Prints one line `listening on ADDRESS:PORT` when it is ready, with --agent a second one, `agent on\n"
         "ADDRESS:PORT`. SIGTERM and SIGINT end it with status 0.\n"
         "Bad arguments end it with status 2, a port that cannot be had with status 1.\n";
}

}  // namespace switchml
