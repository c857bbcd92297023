// The gRPC service `Controller`: authorizes the caller, reads the message, and answers with the core's status.
#pragma once

#include <grpcpp/grpcpp.h>

#include <optional>
#include <string>
#include <vector>

#include "api/switchml_control.grpc.pb.h"
#include "controllerd/dispatcher.h"
#include "controllerd/tokens.h"

namespace switchml {

class ControllerService final : public v1::Controller::Service {
 public:
  /// Without tokens all callers are allowed. `dispatcher` must outlive the service.
  ControllerService(Dispatcher& dispatcher, std::vector<Token> tokens)
      : dispatcher_(dispatcher), tokens_(std::move(tokens)) {}

  grpc::Status Locate(grpc::ServerContext* context, const v1::LocateRequest* request, v1::LocateReply* reply) override;
  grpc::Status Open(grpc::ServerContext* context, const v1::OpenRequest* request, v1::OpenReply* reply) override;
  grpc::Status Renew(grpc::ServerContext* context, const v1::SessionName* request, v1::RenewReply* reply) override;
  grpc::Status Close(grpc::ServerContext* context, const v1::SessionName* request, v1::CloseReply* reply) override;
  grpc::Status Describe(grpc::ServerContext* context, const v1::DescribeRequest* request,
                        v1::DescribeReply* reply) override;
  grpc::Status State(grpc::ServerContext* context, const v1::StateRequest* request, v1::StateReply* reply) override;
  grpc::Status SetPlan(grpc::ServerContext* context, const v1::SetPlanRequest* request,
                       v1::SetPlanReply* reply) override;

 private:
  /// OK, and the token's owner; or UNAUTHENTICATED.
  grpc::Status authorize(const grpc::ServerContext& context, controller::Owner* owner) const;
  void add_counters(v1::StateReply* reply);

  Dispatcher& dispatcher_;
  const std::vector<Token> tokens_;
};

grpc::Status status_of(const controller::Refusal& refusal);

/// Reads a message; INVALID_ARGUMENT names the field, its value and what is allowed.
grpc::Status request_of(const v1::OpenRequest& message, controller::OpenRequest* out);

}  // namespace switchml
