// switchml-controller: the control plane of one or several switches.
#include <cstdio>
#include <cstdlib>

#include "base/signals.h"
#include "controllerd/controller_options.h"
#include "controllerd/controller_server.h"
#include "controllerd/state_text.h"

namespace switchml {
namespace {

int complain(const Status& status, int code) {
  std::fprintf(stderr, "switchml-controller: %s\n", status.message().c_str());
  return code;
}

int print_state(const ControllerCommand& command) {
  const auto state = ask_state(command.state, command.caller);
  if (!state.ok()) return complain(state.status(), 1);
  std::fputs(state_text(state.value()).c_str(), stdout);
  return 0;
}

int serve(const ControllerCommand& command) {
  const sigset_t signals = block_end_signals();
  auto server = ControllerServer::start(command.options);
  if (!server.ok()) return complain(server.status(), 1);
  std::printf("listening on %s\n", server.value()->local().c_str());
  std::fflush(stdout);
  int number = 0;
  sigwait(&signals, &number);
  return 0;
}

int run(int argc, char** argv) {
  setenv("GRPC_VERBOSITY", "NONE", 0);  // The messages here replace gRPC's.
  const auto command = parse_controller_command(argc, argv);
  if (!command.ok()) return complain(command.status(), 2);
  if (command.value().help || command.value().version) {
    std::fputs(command.value().help ? controller_help().c_str() : "switchml-controller " SWITCHML_VERSION "\n", stdout);
    return 0;
  }
  set_log_level(command.value().log_level);
  if (!command.value().state.empty()) return print_state(command.value());
  if (command.value().check) {
    const controller::Topology& topology = command.value().options.topology;
    std::printf("%s: %zu switches, %zu workers: good\n", command.value().topology.c_str(), topology.switches.size(),
                topology.workers.size());
    return 0;
  }
  return serve(command.value());
}

}  // namespace
}  // namespace switchml

int main(int argc, char** argv) { return switchml::run(argc, argv); }
