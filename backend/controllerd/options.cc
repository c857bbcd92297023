#include "controllerd/options.h"

#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/command_line.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/secret.h"
#include "controllerd/topology_file.h"
#include "controllerd/yaml_checks.h"

namespace switchml {

namespace {

enum Option {
  kHelp = 1000,
  kVersion,
  kCheck,
  kInsecure,
  kTopology,
  kSwitch,
  kListen,
  kTokens,
  kCertificate,
  kKey,
  kClientCa,
  kAgentCa,
  kMetrics,
  kLease,
  kLogLevel,
  kState,
  kTokenFile,
  kTlsCa,
};

constexpr option kOptions[] = {
    {"help", no_argument, nullptr, kHelp},
    {"version", no_argument, nullptr, kVersion},
    {"check", no_argument, nullptr, kCheck},
    {"insecure-no-token", no_argument, nullptr, kInsecure},
    {"topology", required_argument, nullptr, kTopology},
    {"switch", required_argument, nullptr, kSwitch},
    {"listen", required_argument, nullptr, kListen},
    {"tokens", required_argument, nullptr, kTokens},
    {"tls-cert", required_argument, nullptr, kCertificate},
    {"tls-key", required_argument, nullptr, kKey},
    {"tls-client-ca", required_argument, nullptr, kClientCa},
    {"agent-ca", required_argument, nullptr, kAgentCa},
    {"metrics", required_argument, nullptr, kMetrics},
    {"lease", required_argument, nullptr, kLease},
    {"log-level", required_argument, nullptr, kLogLevel},
    {"state", required_argument, nullptr, kState},
    {"token-file", required_argument, nullptr, kTokenFile},
    {"tls-ca", required_argument, nullptr, kTlsCa},
    {nullptr, 0, nullptr, 0},
};

/// What was written, by option.
using Written = std::map<int, std::string>;

const char* name_of(int choice) {
  for (const option& each : kOptions) {
    if (each.val == choice) return each.name;
  }
  return "?";
}

Status bad(int choice, const std::string& value, const std::string& allowed) {
  return {Code::kInvalidArgument,
          std::string("--") + name_of(choice) + "=\"" + value + "\" is not allowed: use " + allowed};
}

Result<Written> scan(int argc, char* const* argv) {
  Written written;
  const Status scanned = scan_options(argc, argv, kOptions, [&written](int index, const std::string& text) -> Status {
    const int option = index < 0 ? int{kHelp} : kOptions[index].val;
    if (option == kSwitch && written.count(option) != 0) {
      return {Code::kInvalidArgument, "--switch is for one switch: list \"" + written[option] + "\" and \"" + text +
                                          "\" in a file for --topology"};
    }
    written[option] = text;
    return {};
  });
  if (!scanned.ok()) return scanned;
  return written;
}

/// "HOST:PORT".
bool is_address(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  const std::string port = text.substr(colon + 1);
  return !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos &&
         std::stoi(port) <= 65535;
}

class Parser {
 public:
  explicit Parser(Written written) : written_(std::move(written)) {}

  Result<ControllerCommand> parse() {
    command_.help = has(kHelp);
    command_.version = has(kVersion);
    if (command_.help || command_.version) return command_;
    Status status = log_level();
    if (status.ok()) status = has(kState) ? client() : server();
    if (!status.ok()) return status;
    return command_;
  }

 private:
  bool has(int choice) const { return written_.count(choice) != 0; }
  std::string value(int choice) const { return has(choice) ? written_.at(choice) : ""; }

  Status log_level() {
    if (!has(kLogLevel)) return {};
    if (const auto level = parse_log_level(value(kLogLevel))) {
      command_.log_level = *level;
      return {};
    }
    return bad(kLogLevel, value(kLogLevel), "debug, info, warning, error or off");
  }

  Status address(int choice, std::string* out) {
    if (!has(choice)) return {};
    *out = value(choice);
    return is_address(*out) ? Status{} : bad(choice, *out, "ADDRESS:PORT");
  }

  /// The whole of a file.
  Status file(int choice, std::string* out) {
    if (!has(choice)) return {};
    *out = read_text_file(value(choice));
    return out->empty() ? bad(choice, value(choice), "a file in PEM format that can be read") : Status{};
  }

  Status files(const std::vector<std::pair<int, std::string*>>& wanted) {
    for (const auto& [choice, text] : wanted) {
      if (Status status = file(choice, text); !status.ok()) return status;
    }
    return {};
  }

  Status certificate_with_key() const {
    if (has(kCertificate) == has(kKey)) return {};
    return {Code::kInvalidArgument, "--tls-cert and --tls-key go together: give both or none"};
  }

  // ---- printing another controller's state ----

  Status client() {
    const std::set<int> allowed = {kState, kTokenFile, kTlsCa, kCertificate, kKey, kLogLevel};
    for (const auto& [choice, text] : written_) {
      if (allowed.count(choice) == 0) {
        return {Code::kInvalidArgument, std::string("--") + name_of(choice) + " does not go with --state"};
      }
    }
    if (Status status = address(kState, &command_.state); !status.ok()) return status;
    if (Status status = client_tls(); !status.ok()) return status;
    return token();
  }

  Status client_tls() {
    if (Status status = certificate_with_key(); !status.ok()) return status;
    if (has(kCertificate) && !has(kTlsCa)) {
      return {Code::kInvalidArgument, "--tls-cert and --tls-key need --tls-ca where they go with --state"};
    }
    Caller& caller = command_.caller;
    return files({{kTlsCa, &caller.ca}, {kCertificate, &caller.certificate}, {kKey, &caller.key}});
  }

  Status token() {
    std::string& token = command_.caller.token;
    const char* const variable = std::getenv("SWITCHML_CONTROLLER_TOKEN");
    if (variable != nullptr) token = variable;
    if (!token.empty() && !printable_secret(token)) {
      return {Code::kInvalidArgument, "SWITCHML_CONTROLLER_TOKEN: allowed is printable ASCII without spaces"};
    }
    if (!has(kTokenFile)) return {};
    auto secret = read_secret(value(kTokenFile), "--token-file");
    if (!secret.ok()) return bad(kTokenFile, value(kTokenFile), "a file whose first word is the token");
    token = secret.value();
    return {};
  }

  // ---- being a controller ----

  Status server() {
    for (const int choice : {kTokenFile, kTlsCa}) {
      if (has(choice)) return {Code::kInvalidArgument, std::string("--") + name_of(choice) + " goes with --state only"};
    }
    if (Status status = topology(); !status.ok()) return status;
    if (Status status = lease(); !status.ok()) return status;
    command_.check = has(kCheck);
    if (Status status = tokens(); !status.ok()) return status;
    if (Status status = tls(); !status.ok()) return status;
    if (Status status = address(kListen, &command_.options.listen); !status.ok()) return status;
    return address(kMetrics, &command_.options.metrics);
  }

  Status topology() {
    if (has(kTopology) == has(kSwitch)) {
      return {Code::kInvalidArgument, "which switches are there? Use either --topology FILE or --switch AGENT=ADDRESS"};
    }
    command_.topology = has(kTopology) ? value(kTopology) : "--switch";
    auto topology = has(kTopology) ? read_topology(value(kTopology)) : lone_switch(value(kSwitch));
    if (!topology.ok()) return topology.status();
    command_.options.topology = std::move(topology.value());
    return {};
  }

  Status lease() {
    if (!has(kLease)) return {};
    const auto number = parse_integer(value(kLease), 1, 86400);
    if (!number) return bad(kLease, value(kLease), "1 to 86400 (seconds)");
    command_.options.topology.lease = seconds(*number);
    return {};
  }

  Status tokens() {
    if (has(kTokens) && has(kInsecure)) {
      return {Code::kInvalidArgument, "--tokens and --insecure-no-token exclude each other"};
    }
    if (has(kTokens)) {
      auto tokens = read_tokens(value(kTokens));
      if (!tokens.ok()) return tokens.status();
      command_.options.tokens = std::move(tokens.value());
    } else if (!has(kInsecure) && !command_.check) {
      return {
          Code::kInvalidArgument,
          "who may open sessions? Use --tokens FILE, or --insecure-no-token to let everybody who reaches this port"};
    }
    return {};
  }

  Status tls() {
    TlsTexts& texts = command_.options.tls;
    if (Status status = certificate_with_key(); !status.ok()) return status;
    if (has(kClientCa) && !has(kCertificate)) {
      return {Code::kInvalidArgument, "--tls-client-ca needs --tls-cert and --tls-key"};
    }
    return files({{kCertificate, &texts.certificate},
                  {kKey, &texts.key},
                  {kClientCa, &texts.client_ca},
                  {kAgentCa, &texts.agent_ca}});
  }

  const Written written_;
  ControllerCommand command_;
};

}  // namespace

Result<ControllerCommand> parse_controller_command(int argc, char* const* argv) {
  auto written = scan(argc, argv);
  if (!written.ok()) return written.status();
  return Parser(std::move(written.value())).parse();
}

std::string controller_help() {
  return "usage: switchml-controller (--topology FILE | --switch AGENT=ADDRESS) (--tokens FILE | --insecure-no-token)\n"
         "                           [OPTION]...\n"
         "       switchml-controller --state ADDRESS:PORT [--token-file FILE]\n"
         "                           [--tls-ca FILE [--tls-cert FILE --tls-key FILE]]\n"
         "Gives switchml jobs their slots on the switches. Workers find it through SWITCHML_CONTROLLER=ADDRESS:PORT.\n"
         "\n"
         "  --topology FILE        switches and workers (docs/controller.md)\n"
         "  --switch AGENT=ADDRESS one switch: HOST:PORT of its agent, and the address that workers send to\n"
         "  --tokens FILE          who may open sessions, and how much each may have\n"
         "  --insecure-no-token    everybody who reaches the port may\n"
         "  --listen ADDRESS:PORT  where workers ask; port 0 takes a free one (0.0.0.0:48880)\n"
         "  --tls-cert FILE        certificate of the controller (PEM); with\n"
         "  --tls-key FILE         its key\n"
         "  --tls-client-ca FILE   take only callers with a certificate of this authority\n"
         "  --agent-ca FILE        TLS towards the switches' agents, with certificates of this authority\n"
         "  --metrics ADDRESS:PORT metrics for Prometheus, at /metrics\n"
         "  --lease SECONDS        a job none of whose workers is heard for this long ends, after 15 s (or half) "
         "where\n"
         "                         others need its room: 1 to 86400 (1800, or the file's)\n"
         "  --log-level LEVEL      debug, info, warning, error or off (warning)\n"
         "  --check                read the files, say whether they are good, and leave\n"
         "  --state ADDRESS:PORT   print the switches, sessions and counters of a running controller\n"
         "  --token-file FILE      the token for that (or SWITCHML_CONTROLLER_TOKEN)\n"
         "  --tls-ca FILE          the authority of that controller's certificate; without it no TLS. --tls-cert and\n"
         "                         --tls-key are the caller's here, for a controller with --tls-client-ca\n"
         "  --version              print the version and leave\n"
         "  --help                 print this and leave\n"
         "\n"
         "Prints one line `listening on ADDRESS:PORT` when it is ready. SIGTERM and SIGINT end it with status 0.\n"
         "Bad arguments and files end it with status 2, a port that cannot be had, or a controller that does not\n"
         "answer, with status 1.\n";
}

}  // namespace switchml
