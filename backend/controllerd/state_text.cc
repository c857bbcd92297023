#include "controllerd/state_text.h"

#include <grpcpp/grpcpp.h>

#include <map>

#include "api/switchml_control.grpc.pb.h"
#include "base/clock.h"

namespace switchml {

namespace {

constexpr Duration kLimit = seconds(10);

std::string switch_line(const v1::SwitchDescription& view) {
  std::string line = "switch " + view.name() + " at " + view.address();
  if (!view.parent().empty()) line += ", below " + view.parent();
  if (!view.connected()) return line + ": not connected: " + view.problem() + "\n";
  line += ": " + view.capabilities().kind() + ", " + std::to_string(view.free_slots()) + " slots left";
  if (!view.problem().empty()) line += ", not usable: " + view.problem();
  return line + "\n";
}

std::string session_line(const v1::SessionState& view) {
  std::string switches;
  for (const std::string& name : view.switches()) switches += (switches.empty() ? "" : ", ") + name;
  std::string line = "job " + std::to_string(view.job()) + " \"" + view.group() + "\"";
  if (!view.owner().empty()) line += " of " + view.owner();
  return line + ": " + std::to_string(view.joined_size()) + " of " + std::to_string(view.workers()) +
         " workers joined, " + std::to_string(view.slots()) + " slots of " + std::to_string(view.payload_bytes()) +
         " bytes on " + switches + ", lease " + std::to_string(view.lease_left_ms() / 1000) + " s\n";
}

std::string counters_lines(const v1::SwitchState& view) {
  std::string text;
  for (const v1::JobCounters& job : view.counters()) {
    const std::map<std::string, uint64_t> sorted(job.values().begin(), job.values().end());
    std::string values;
    for (const auto& [name, value] : sorted) {
      if (value != 0) values += " " + name + "=" + std::to_string(value);
    }
    if (values.empty()) continue;
    text += "counters of " + view.description().name() + ", job " + std::to_string(job.job()) + ":" + values + "\n";
  }
  return text;
}

}  // namespace

Result<v1::StateReply> ask_state(const std::string& address, const std::string& token, const std::string& ca) {
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = ca;
  const auto credentials = ca.empty() ? grpc::InsecureChannelCredentials() : grpc::SslCredentials(tls);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto stub = v1::Controller::NewStub(grpc::CreateCustomChannel(address, credentials, arguments));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kLimit);
  if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
  v1::StateRequest request;
  request.set_counters(true);
  v1::StateReply reply;
  const grpc::Status status = stub->State(&context, request, &reply);
  if (status.ok()) return reply;
  return Status(Code::kUnavailable, "controller " + address + ": " + status.error_message());
}

std::string state_text(const v1::StateReply& state) {
  std::string text;
  for (const v1::SwitchState& view : state.switches()) text += switch_line(view.description());
  for (const v1::SessionState& view : state.sessions()) text += session_line(view);
  if (state.sessions().empty()) text += "no sessions\n";
  for (const v1::SwitchState& view : state.switches()) text += counters_lines(view);
  return text;
}

}  // namespace switchml
