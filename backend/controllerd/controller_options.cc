#include "controllerd/controller_options.h"

#include <cstdlib>
#include <utility>
#include <vector>

#include "base/command_line.h"
#include "base/secret.h"
#include "controllerd/topology_file.h"

namespace switchml {

namespace {

/// The options as written, some of which are a controller's or a caller's.
struct Written {
  ControllerCommand command;
  std::vector<std::string> switches;
  std::string topology, tokens;
  std::string certificate, key;  // The controller's, or the caller's with --state.
  std::string ca, token;         // The caller's.
  Duration lease{0};
  bool insecure = false;
};

std::vector<Option> table(Written* written) {
  ControllerCommand& command = written->command;
  ControllerOptions& options = command.options;
  const auto add_switch = [written](const std::string& text) {
    written->switches.push_back(text);
    return true;
  };
  return {
      {"topology", value::word("FILE", &written->topology), "switches and workers (docs/controller.md)"},
      {"switch",
       {"AGENT=ADDRESS", "", add_switch, nullptr, true},
       "one switch: HOST:PORT of its agent, and the address that workers send to"},
      {"tokens", value::word("FILE", &written->tokens), "who may open sessions, and how much each may have"},
      {"insecure-no-token", value::flag(&written->insecure), "everybody who reaches the port may"},
      {"listen", value::host_port(&options.listen), "where workers ask; port 0 takes a free one"},
      {"tls-cert", value::pem_file(&written->certificate), "certificate of the controller (PEM); with"},
      {"tls-key", value::pem_file(&written->key), "its key"},
      {"tls-client-ca", value::pem_file(&options.tls.client_ca),
       "take only callers with a certificate of this authority"},
      {"agent-ca", value::pem_file(&options.tls.agent_ca),
       "TLS towards the switches' agents, with certificates of this authority"},
      {"metrics", value::host_port(&options.metrics), "metrics for Prometheus, at /metrics"},
      {"lease", value::whole_seconds(1, 86400, &written->lease),
       "a job none of whose workers is heard for this long ends, after 15 s (or half) where others need its room",
       "the file's, or 1800"},
      {"log-level", value::log_level(&command.log_level), "least severe messages that are logged"},
      {"check", value::flag(&command.check), "read the files, say whether they are good, and leave"},
      {"state", value::peer(&command.state), "print the switches, sessions and counters of a running controller"},
      {"token-file", value::secret_file(&written->token), "the token for that (or SWITCHML_CONTROLLER_TOKEN)"},
      {"tls-ca", value::pem_file(&written->ca),
       "the authority of that controller's certificate; without it no TLS. --tls-cert and --tls-key are the caller's "
       "here, for a controller with --tls-client-ca"},
      {"version", value::flag(&command.version), "print the version and leave"},
      {"help", value::flag(&command.help), "print this and leave"},
  };
}

Status bad(const std::string& message) { return {Code::kInvalidArgument, message}; }

Status check_certificate(const Written& written) {
  if (written.certificate.empty() == written.key.empty()) return {};
  return bad("--tls-cert and --tls-key go together: give both or none");
}

// ---- printing another controller's state ----

Status read_token(const Written& written, std::string* token) {
  const char* const variable = std::getenv("SWITCHML_CONTROLLER_TOKEN");
  if (variable != nullptr) *token = variable;
  if (!token->empty() && !printable_secret(*token)) {
    return bad("SWITCHML_CONTROLLER_TOKEN: allowed is printable ASCII without spaces");
  }
  if (!written.token.empty()) *token = written.token;
  return {};
}

Status ask_with(const Written& written, const Given& given, ControllerCommand* command) {
  const Given allowed = {"state", "token-file", "tls-ca", "tls-cert", "tls-key", "log-level"};
  for (const std::string& name : given) {
    if (allowed.count(name) == 0) return bad("--" + name + " does not go with --state");
  }
  if (!written.certificate.empty() && written.ca.empty()) {
    return bad("--tls-cert and --tls-key need --tls-ca where they go with --state");
  }
  command->caller.ca = written.ca;
  command->caller.certificate = written.certificate;
  command->caller.key = written.key;
  return read_token(written, &command->caller.token);
}

// ---- being a controller ----

Status read_switches(const Written& written, ControllerCommand* command) {
  const std::vector<std::string>& switches = written.switches;
  if (switches.size() > 1) {
    return bad("--switch is for one switch: list \"" + switches[0] + "\" and \"" + switches[1] +
               "\" in a file for --topology");
  }
  if (written.topology.empty() == switches.empty()) {
    return bad("which switches are there? Use either --topology FILE or --switch AGENT=ADDRESS");
  }
  command->topology = switches.empty() ? written.topology : "--switch";
  auto topology = switches.empty() ? read_topology(written.topology) : lone_switch(switches[0]);
  if (!topology.ok()) return topology.status();
  command->options.topology = std::move(topology.value());
  if (written.lease.count() != 0) command->options.topology.lease = written.lease;
  return {};
}

Status take_tokens(const Written& written, ControllerCommand* command) {
  if (!written.tokens.empty() && written.insecure) {
    return bad("--tokens and --insecure-no-token exclude each other");
  }
  if (written.tokens.empty()) {
    if (written.insecure || command->check) return {};
    return bad(
        "who may open sessions? Use --tokens FILE, or --insecure-no-token to let everybody who reaches this port");
  }
  auto tokens = read_tokens(written.tokens);
  if (!tokens.ok()) return tokens.status();
  command->options.tokens = std::move(tokens.value());
  return {};
}

Status serve_with(const Written& written, const Given& given, ControllerCommand* command) {
  for (const char* const name : {"token-file", "tls-ca"}) {
    if (given.count(name) != 0) return bad("--" + std::string(name) + " goes with --state only");
  }
  if (Status status = read_switches(written, command); !status.ok()) return status;
  if (Status status = take_tokens(written, command); !status.ok()) return status;
  TlsTexts& tls = command->options.tls;
  if (!tls.client_ca.empty() && written.certificate.empty()) {
    return bad("--tls-client-ca needs --tls-cert and --tls-key");
  }
  tls.certificate = written.certificate;
  tls.key = written.key;
  return {};
}

}  // namespace

Result<ControllerCommand> parse_controller_command(int argc, char* const* argv) {
  Written written;
  const auto given = parse_options(argc, argv, table(&written));
  if (!given.ok()) return given.status();
  ControllerCommand command = written.command;
  if (command.help || command.version) return command;
  Status status = check_certificate(written);
  if (status.ok()) {
    status = command.state.empty() ? serve_with(written, given.value(), &command)
                                   : ask_with(written, given.value(), &command);
  }
  if (!status.ok()) return status;
  return command;
}

std::string controller_help() {
  Written presets;
  return "usage: switchml-controller (--topology FILE | --switch AGENT=ADDRESS) (--tokens FILE | --insecure-no-token)\n"
         "                           [OPTION]...\n"
         "       switchml-controller --state ADDRESS:PORT [--token-file FILE]\n"
         "                           [--tls-ca FILE [--tls-cert FILE --tls-key FILE]]\n"
         "Gives switchml jobs their slots on the switches. Workers find it through SWITCHML_CONTROLLER=ADDRESS:PORT.\n"
         "\n" +
         options_text(table(&presets)) +
         "\n"
         "Prints one line `listening on ADDRESS:PORT` when it is ready. SIGTERM and SIGINT end it with status 0.\n"
         "Bad arguments and files end it with status 2, a port that cannot be had, or a controller that does not\n"
         "answer, with status 1.\n";
}

}  // namespace switchml
