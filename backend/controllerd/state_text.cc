#include "controllerd/state_text.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <map>
#include <set>

#include "api/switchml_control.grpc.pb.h"
#include "base/clock.h"

namespace switchml {

namespace {

constexpr Duration kLimit = seconds(10);
constexpr uint32_t kMostNamed = 8;  // Ranks named on a line.

size_t jobs_at(const std::string& name, const v1::StateReply& state) {
  return static_cast<size_t>(
      std::count_if(state.sessions().begin(), state.sessions().end(), [&name](const v1::SessionState& session) {
        return std::find(session.switches().begin(), session.switches().end(), name) != session.switches().end();
      }));
}

std::string switch_line(const v1::SwitchDescription& view, size_t jobs) {
  std::string line = "switch " + view.name() + " at " + view.address();
  if (!view.parent().empty()) line += ", below " + view.parent();
  if (!view.connected()) return line + ": not connected: " + view.problem() + "\n";
  line += ": " + view.capabilities().kind() + ", " + std::to_string(jobs) + " jobs, " +
          std::to_string(view.free_slots()) + " slots left";
  if (!view.problem().empty()) line += ", not usable: " + view.problem();
  return line + "\n";
}

/// The ranks that have not joined: " (not 1, 2)".
std::string missing_ranks(const v1::SessionState& view) {
  const std::set<uint32_t> joined(view.joined().begin(), view.joined().end());
  std::string text;
  uint32_t missing = 0;
  for (uint32_t rank = 0; rank < view.workers(); ++rank) {
    if (joined.count(rank) == 0 && ++missing <= kMostNamed) text += (missing > 1 ? ", " : "") + std::to_string(rank);
  }
  if (missing > kMostNamed) text += " and " + std::to_string(missing - kMostNamed) + " more";
  return missing == 0 ? "" : " (not " + text + ")";
}

std::string problems_of(const v1::SessionState& view) {
  std::string text;
  for (const std::string& problem : view.problems()) text += "  problem: " + problem + "\n";
  return text;
}

std::string session_line(const v1::SessionState& view) {
  std::string switches;
  for (const std::string& name : view.switches()) switches += (switches.empty() ? "" : ", ") + name;
  std::string line = "job " + std::to_string(view.job()) + " \"" + view.group() + "\"";
  if (!view.owner().empty()) line += " of " + view.owner();
  return line + ": " + std::to_string(view.joined_size()) + " of " + std::to_string(view.workers()) +
         " workers joined" + missing_ranks(view) + ", " + std::to_string(view.slots()) + " slots of " +
         std::to_string(view.payload_bytes()) + " bytes on " + switches + ", lease " +
         std::to_string(view.lease_left_ms() / 1000) + " s\n" + problems_of(view);
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

/// Possible reasons of a failed connection, which gRPC does not say.
std::string advice(const Caller& caller) {
  const std::string start = " (is it running there, and ";
  if (caller.ca.empty()) return start + "does it speak TLS? Then --tls-ca is needed)";
  if (caller.certificate.empty()) {
    return start +
           "does it speak TLS, with a certificate of --tls-ca for this name? If it asks for a certificate, "
           "--tls-cert and --tls-key are needed)";
  }
  return start +
         "does it speak TLS, with a certificate of --tls-ca for this name? Do --tls-cert and --tls-key fit each "
         "other, and has its --tls-client-ca signed that certificate?)";
}

}  // namespace

Result<v1::StateReply> ask_state(const std::string& address, const Caller& caller) {
  const auto credentials = caller.ca.empty() ? grpc::InsecureChannelCredentials()
                                             : grpc::SslCredentials({caller.ca, caller.key, caller.certificate});
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto stub = v1::Controller::NewStub(grpc::CreateCustomChannel(address, credentials, arguments));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kLimit);
  if (!caller.token.empty()) context.AddMetadata("authorization", "Bearer " + caller.token);
  v1::StateRequest request;
  request.set_counters(true);
  v1::StateReply reply;
  const grpc::Status status = stub->State(&context, request, &reply);
  if (status.ok()) return reply;
  const bool unreached = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
  return Status(Code::kUnavailable,
                "controller " + address + ": " + status.error_message() + (unreached ? advice(caller) : ""));
}

std::string state_text(const v1::StateReply& state) {
  std::string text;
  for (const v1::SwitchState& view : state.switches()) {
    text += switch_line(view.description(), jobs_at(view.description().name(), state));
  }
  for (const v1::SessionState& view : state.sessions()) text += session_line(view);
  if (state.sessions().empty()) text += "no sessions\n";
  for (const v1::SwitchState& view : state.switches()) text += counters_lines(view);
  return text;
}

}  // namespace switchml
