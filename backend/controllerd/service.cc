#include "controllerd/service.h"

#include "base/limits.h"
#include "base/log.h"
#include "controllerd/plan_message.h"
#include "controllerd/port_message.h"
#include "socket/address.h"

namespace switchml {

namespace {

constexpr int kMostAddresses = 16;

grpc::Status invalid(const std::string& message) { return {grpc::StatusCode::INVALID_ARGUMENT, message}; }

grpc::Status operations_of(const v1::OpenRequest& message, controller::OpenRequest* out) {
  if (message.operations_size() == 0) return grpc::Status::OK;  // All operations.
  out->sum = out->max = false;
  for (const int operation : message.operations()) {
    if (operation != v1::SUM && operation != v1::MAX) {
      return invalid("operations: " + std::to_string(operation) + " is none; allowed are 1 (SUM) and 2 (MAX)");
    }
    out->sum |= operation == v1::SUM;
    out->max |= operation == v1::MAX;
  }
  return grpc::Status::OK;
}

/// Checks a group's name, which logs, terminals and metrics show.
grpc::Status check_group(const std::string& group) {
  std::string shown;
  bool good = true;
  for (size_t i = 0; i < group.size(); ++i) {
    const auto byte = static_cast<unsigned char>(group[i]);
    const auto before = static_cast<unsigned char>(i == 0 ? 0 : group[i - 1]);
    const bool upper = before == 0xc2 && byte >= 0x80 && byte < 0xa0;  // UTF-8 of U+0080 to U+009F.
    const bool control = byte < 0x20 || byte == 0x7f || upper;
    good &= !control;
    shown += control ? '?' : group[i];
  }
  if (good) return grpc::Status::OK;
  return invalid("group \"" + shown + "\" has control characters (shown as ?): allowed are all others");
}

// Reads the addresses of an OpenRequest or a LocateRequest.
template <typename Message>
grpc::Status addresses_of(const Message& message, std::vector<std::vector<Endpoint>>* out) {
  for (int rank = 0; rank < message.ranks_size(); ++rank) {
    const std::string self = "ranks[" + std::to_string(rank) + "].addresses";
    if (message.ranks(rank).addresses_size() > kMostAddresses) {
      return invalid(self + ": " + std::to_string(message.ranks(rank).addresses_size()) +
                     " of them; allowed are 0 to " + std::to_string(kMostAddresses));
    }
    std::vector<Endpoint> addresses;
    for (const std::string& text : message.ranks(rank).addresses()) {
      const auto address = literal_address(text, 0);
      if (!address.ok()) return invalid(self + ": " + address.status().message());
      addresses.push_back(address.value());
    }
    out->push_back(std::move(addresses));
  }
  return grpc::Status::OK;
}

v1::SwitchDescription description_of(const SwitchView& view) {
  v1::SwitchDescription out;
  out.set_name(view.name);
  out.set_address(to_string(view.address));
  out.set_parent(view.parent);
  out.set_connected(view.connected);
  out.set_problem(view.problem);
  out.set_free_slots(static_cast<uint32_t>(std::min<size_t>(view.free_slots, UINT32_MAX)));
  if (!view.capabilities) return out;
  const controller::Capabilities& can = *view.capabilities;
  v1::Capabilities& message = *out.mutable_capabilities();
  message.set_kind(can.kind);
  message.set_instance(can.instance);
  message.set_protocol_version(can.protocol_version);
  for (const size_t size : can.payloads) message.add_payload_bytes(static_cast<uint32_t>(size));
  message.set_any_payload(can.any_payload);
  message.set_whole_chunks(can.whole_chunks);
  message.set_members(static_cast<uint32_t>(can.members));
  message.set_jobs(static_cast<uint32_t>(can.jobs));
  if (can.sum) message.add_operations(v1::SUM);
  if (can.max) message.add_operations(v1::MAX);
  message.set_trees(can.trees);
  message.set_pages(static_cast<uint32_t>(can.pages));
  message.set_page_slots(static_cast<uint32_t>(can.page_slots));
  message.set_memory_bytes(can.memory_bytes);
  message.set_receive_buffer_bytes(can.receive_buffer_bytes);
  message.set_mac(can.mac);
  message.set_places(static_cast<uint32_t>(can.places));
  message.set_pairs(can.pairs);
  return out;
}

v1::SessionState state_of(const controller::SessionView& view, const controller::Topology& topology) {
  v1::SessionState out;
  out.set_job(view.id.job);
  out.set_group(view.group);
  out.set_owner(view.owner);
  out.set_workers(static_cast<uint32_t>(view.workers));
  for (int rank = 0; rank < view.workers; ++rank) {
    if (view.joined.test(rank)) out.add_joined(static_cast<uint32_t>(rank));
  }
  out.set_slots(static_cast<uint32_t>(view.slots));
  out.set_payload_bytes(static_cast<uint32_t>(view.payload_bytes));
  out.set_lease_left_ms(static_cast<uint32_t>(view.lease_left / milliseconds(1)));
  for (const int at : view.switches) out.add_switches(topology.switches[static_cast<size_t>(at)].name);
  for (const controller::SilentPath& path : view.silent_paths) {
    out.add_problems(describe(path, topology, view.id.job));
  }
  return out;
}

/// The session that a message names; false if it can name none.
bool session_of(const v1::SessionName& message, controller::SessionId* out) {
  if (message.job() < 1 || message.job() > kMaxJobs) return false;
  *out = {static_cast<uint8_t>(message.job()), message.epoch()};
  return true;
}

grpc::Status bad_job(uint32_t job) {
  return invalid("job " + std::to_string(job) + ": allowed are 1 to " + std::to_string(kMaxJobs));
}

}  // namespace

grpc::Status status_of(const controller::Refusal& refusal) {
  switch (refusal.why) {
    case controller::Why::kInvalid: return {grpc::StatusCode::INVALID_ARGUMENT, refusal.message};
    case controller::Why::kExhausted: return {grpc::StatusCode::RESOURCE_EXHAUSTED, refusal.message};
    case controller::Why::kUnavailable: return {grpc::StatusCode::UNAVAILABLE, refusal.message};
    case controller::Why::kNotFound: return {grpc::StatusCode::NOT_FOUND, refusal.message};
    case controller::Why::kPrecondition: return {grpc::StatusCode::FAILED_PRECONDITION, refusal.message};
  }
  return {grpc::StatusCode::INTERNAL, refusal.message};
}

grpc::Status request_of(const v1::OpenRequest& message, controller::OpenRequest* out) {
  out->protocol_version = message.protocol_version();
  out->client_key = message.client_key();
  out->group = message.group();
  out->workers = message.workers();
  out->shards = message.shards();
  out->slots = message.slots();
  out->payload_bytes = message.payload_bytes();
  out->pairs = message.queue_pairs();
  out->exact = message.exact();
  out->share = message.share();
  if (message.replaces().job() <= UINT8_MAX) {  // No session has another job number.
    out->replaces = {static_cast<uint8_t>(message.replaces().job()), message.replaces().epoch()};
    out->replaced_key = message.replaces().session_key();
  }
  if (grpc::Status status = check_group(message.group()); !status.ok()) return status;
  if (grpc::Status status = operations_of(message, out); !status.ok()) return status;
  return addresses_of(message, &out->ranks);
}

grpc::Status ControllerService::authorize(const grpc::ServerContext& context, controller::Owner* owner) const {
  if (tokens_.empty()) return grpc::Status::OK;
  const auto& metadata = context.client_metadata();
  const auto header = metadata.find("authorization");
  if (header == metadata.end()) {
    return {grpc::StatusCode::UNAUTHENTICATED,
            "no token: set SWITCHML_CONTROLLER_TOKEN, or send `authorization: Bearer "
            "TOKEN` as metadata"};
  }
  const auto found = owner_of(tokens_, std::string(header->second.data(), header->second.size()));
  if (!found) return {grpc::StatusCode::UNAUTHENTICATED, "the token is none of this controller's"};
  *owner = *found;
  return grpc::Status::OK;
}

grpc::Status ControllerService::Locate(grpc::ServerContext* context, const v1::LocateRequest* request,
                                       v1::LocateReply* reply) {
  controller::Owner owner;
  if (grpc::Status status = authorize(*context, &owner); !status.ok()) return status;
  if (request->ranks_size() < 1 || request->ranks_size() > kMaxWorkers) {
    return invalid("ranks: " + std::to_string(request->ranks_size()) + " of them; allowed are 1 to " +
                   std::to_string(kMaxWorkers));
  }
  std::vector<std::vector<Endpoint>> ranks;
  if (grpc::Status status = addresses_of(*request, &ranks); !status.ok()) return status;
  const auto shares = dispatcher_.locate(ranks);
  if (!shares.ok()) return invalid(shares.status().message());
  for (const controller::ShareLocation& share : shares.value()) {
    v1::LocatedShare& out = *reply->add_shares();
    out.set_weight(share.weight);
    out.set_tree_id(share.tree_id);
    for (const Endpoint& address : share.switches) out.add_switch_addresses(to_string(address));
  }
  return grpc::Status::OK;
}

grpc::Status ControllerService::Open(grpc::ServerContext* context, const v1::OpenRequest* request,
                                     v1::OpenReply* reply) {
  controller::OpenRequest asked;
  if (grpc::Status status = authorize(*context, &asked.owner); !status.ok()) return status;
  if (grpc::Status status = request_of(*request, &asked); !status.ok()) return status;
  const controller::OpenAnswer answer = dispatcher_.open(asked);
  if (answer.refusal) {
    SWITCHML_LOG(kInfo) << "open of \"" << asked.group << "\" refused: " << answer.refusal->message;
    return status_of(*answer.refusal);
  }
  SWITCHML_LOG(kInfo) << "job " << int{answer.granted.job} << " is \"" << asked.group << "\" with " << asked.workers
                      << " workers";
  reply->mutable_session()->set_job(answer.granted.job);
  reply->mutable_session()->set_epoch(answer.granted.epoch);
  reply->mutable_session()->set_session_key(answer.granted.session_key);
  reply->set_slots(answer.granted.slots);
  reply->set_payload_bytes(answer.granted.payload);
  reply->set_whole_chunks((answer.granted.flags & wire::kOpenWholeChunks) != 0);
  reply->set_exact((answer.granted.flags & wire::kOpenExact) != 0);
  reply->set_tree((answer.granted.flags & wire::kOpenTree) != 0);
  reply->set_lease_ms(answer.granted.lease_ms);
  for (const Endpoint& address : answer.switch_addresses) reply->add_switch_addresses(to_string(address));
  return grpc::Status::OK;
}

grpc::Status ControllerService::Renew(grpc::ServerContext* context, const v1::SessionName* request,
                                      v1::RenewReply* reply) {
  controller::Owner owner;
  if (grpc::Status status = authorize(*context, &owner); !status.ok()) return status;
  controller::SessionId id;
  if (!session_of(*request, &id)) return bad_job(request->job());
  if (const auto refusal = dispatcher_.renew(id, request->session_key())) return status_of(*refusal);
  reply->set_lease_ms(static_cast<uint32_t>(dispatcher_.lease() / milliseconds(1)));
  return grpc::Status::OK;
}

grpc::Status ControllerService::Close(grpc::ServerContext* context, const v1::SessionName* request, v1::CloseReply*) {
  controller::Owner owner;
  if (grpc::Status status = authorize(*context, &owner); !status.ok()) return status;
  controller::SessionId id;
  if (!session_of(*request, &id)) return bad_job(request->job());
  const auto refusal = dispatcher_.close(id, request->session_key());
  return refusal ? status_of(*refusal) : grpc::Status::OK;
}

grpc::Status ControllerService::Describe(grpc::ServerContext* context, const v1::DescribeRequest*,
                                         v1::DescribeReply* reply) {
  controller::Owner owner;
  if (grpc::Status status = authorize(*context, &owner); !status.ok()) return status;
  for (const SwitchView& view : dispatcher_.switches()) *reply->add_switches() = description_of(view);
  return grpc::Status::OK;
}

grpc::Status ControllerService::State(grpc::ServerContext* context, const v1::StateRequest* request,
                                      v1::StateReply* reply) {
  controller::Owner owner;
  if (grpc::Status status = authorize(*context, &owner); !status.ok()) return status;
  const std::vector<SwitchView> switches = dispatcher_.switches();
  for (const auto& view : dispatcher_.sessions()) *reply->add_sessions() = state_of(view, dispatcher_.topology());
  for (const SwitchView& view : switches) *reply->add_switches()->mutable_description() = description_of(view);
  if (request->counters()) add_counters(reply);
  return grpc::Status::OK;
}

grpc::Status ControllerService::SetPlan(grpc::ServerContext* context, const v1::SetPlanRequest* request,
                                        v1::SetPlanReply*) {
  controller::Owner owner;
  if (grpc::Status status = authorize(*context, &owner); !status.ok()) return status;
  if (!tokens_.empty() && !owner.plans) {
    return {grpc::StatusCode::PERMISSION_DENIED,
            "the token \"" + owner.name + "\" may not plan for others: it has no `plans: true`"};
  }
  auto plan = plan_of(*request, dispatcher_.topology());
  if (!plan.ok()) return invalid(plan.status().message());
  SWITCHML_LOG(kInfo) << "a plan of " << plan->shares.size() << " shares for " << plan->workers.size() << " workers";
  const auto refusal = dispatcher_.set_plan(std::move(plan.value()));
  return refusal ? status_of(*refusal) : grpc::Status::OK;
}

void ControllerService::add_counters(v1::StateReply* reply) {
  for (int at = 0; at < reply->switches_size(); ++at) {
    v1::CountersReply counters;
    if (!dispatcher_.switch_counters(at, &counters).ok()) continue;  // Its description says that it is not connected.
    reply->mutable_switches(at)->mutable_counters()->Swap(counters.mutable_jobs());
  }
}

}  // namespace switchml
