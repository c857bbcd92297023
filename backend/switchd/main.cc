// switchml-switchd: the standalone software switch.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <tuple>

#include "base/parse.h"
#include "base/secret.h"
#include "base/signals.h"
#include "socket/address.h"
#include "switchd/agent.h"
#include "switchd/options.h"
#include "switchd/server.h"

namespace switchml {
namespace {

std::string counters_line(const SwitchCounters& counters) {
  std::string text;
  counters.for_each([&text](const CounterInfo& info, uint64_t value) {
    if (value != 0) text += std::string(" ") + info.name + "=" + std::to_string(value);
  });
  return text.empty() ? " nothing received" : text;
}

// True when a signal came, false after `timeout`.
bool wait_for_signal(const sigset_t& set, Duration timeout) {
  const auto whole = std::chrono::duration_cast<seconds>(timeout);
  const timespec limit{static_cast<time_t>(whole.count()), static_cast<long>((timeout - whole).count())};
  return sigtimedwait(&set, nullptr, &limit) > 0;
}

void run_until_signal(const CommandLine& line, const sigset_t& signals, const SwitchServer& server) {
  const Duration interval = line.stats_interval.count() == 0 ? Duration(seconds(3600)) : line.stats_interval;
  while (!wait_for_signal(signals, interval)) {
    if (line.stats_interval.count() != 0) {
      SWITCHML_LOG(kInfo) << "counters:" << counters_line(server.counters());
    }
  }
  SWITCHML_LOG(kInfo) << "final counters:" << counters_line(server.counters());
}

int fail(const Status& status) {
  std::fprintf(stderr, "switchml-switchd: %s\n", status.message().c_str());
  return 1;
}

// Null without --agent.
std::unique_ptr<Agent> make_agent(const AgentOptions& options) {
#ifdef SWITCHML_HAS_AGENT
  setenv("GRPC_VERBOSITY", "NONE", 0);  // its failures are told in our own words
  if (!options.listen.empty()) return Agent::create(options);
#else
  static_cast<void>(options);
#endif
  return nullptr;
}

int serve(CommandLine line, const AgentOptions& agent_options) {
  set_log_level(line.log_level);
  const sigset_t signals = block_end_signals();
  const std::unique_ptr<Agent> agent = make_agent(agent_options);
  line.server.control = agent.get();
  auto server = SwitchServer::start(line.server);
  if (!server.ok()) return fail(server.status());
  if (agent) {
    if (Status status = agent->serve(*server.value()); !status.ok()) return fail(status);
  }
  std::printf("listening on %s\n", to_string(server.value()->local()).c_str());
  if (agent) std::printf("agent on %s\n", agent->local().c_str());
  std::fflush(stdout);
  run_until_signal(line, signals, *server.value());
  if (agent) agent->stop();
  return 0;
}

int refuse(const std::string& message) {
  std::fprintf(stderr, "switchml-switchd: %s\n", message.c_str());
  return 2;
}

Result<AgentOptions> agent_options(const AgentLine& line) {
  AgentOptions options;
  options.listen = line.listen;
  if (!line.token_file.empty()) {
    auto token = read_secret(line.token_file, "--agent-token-file=\"" + line.token_file + "\"");
    if (!token.ok()) return token.status();
    options.token = token.value();
  }
  const std::tuple<const char*, const std::string*, std::string*> files[] = {
      {"--agent-cert", &line.certificate_file, &options.certificate}, {"--agent-key", &line.key_file, &options.key}};
  for (const auto& [option, path, text] : files) {
    if (path->empty()) continue;
    *text = read_text_file(*path);
    if (!text->empty()) continue;
    return Status(Code::kInvalidArgument, std::string(option) + "=\"" + *path + "\": cannot be read, or is empty");
  }
#ifndef SWITCHML_HAS_AGENT
  if (!line.listen.empty()) {
    return Status(Code::kUnsupported,
                  "--agent=\"" + line.listen +
                      "\": this switchml-switchd was built without an agent, which needs gRPC; pip's always is. `make "
                      "setup` in a source tree builds one: build/backend/switchd/switchml-switchd. By hand: apt-get "
                      "install libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc pkg-config, then "
                      "cmake -S . -B build && cmake --build build --target switchml-switchd");
  }
#endif
  return options;
}

int run(int argc, char** argv) {
  auto line = parse_command_line(argc, argv);
  if (!line.ok()) return refuse(line.status().message());
  if (line->help || line->version) {
    std::fputs(line->help ? help_text().c_str() : "switchml-switchd " SWITCHML_VERSION "\n", stdout);
    return 0;
  }
  auto address = resolve_address(line->listen, "--listen");
  if (!address.ok()) return refuse(address.status().message());
  line->server.listen = address.value();
  const auto agent = agent_options(line->agent);
  if (!agent.ok()) return refuse(agent.status().message());
  return serve(line.value(), agent.value());
}

}  // namespace
}  // namespace switchml

int main(int argc, char** argv) { return switchml::run(argc, argv); }
