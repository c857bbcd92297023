// A gRPC server behind a GuardedListener: gRPC alone takes connections until no descriptor is left, and then never
// again.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <utility>

#include "socket/address.h"
#include "transport/guarded_listener.h"

namespace switchml {

class GrpcListener {
 public:
  /// `text`: ADDRESS:PORT of the option `what`, "--listen", which an error names.
  static Result<std::unique_ptr<GrpcListener>> open(const std::string& what, const std::string& text) {
    auto listener = GuardedListener::open(text, what);
    if (!listener.ok()) return listener.status();
    return std::unique_ptr<GrpcListener>(new GrpcListener(text, std::move(listener.value())));
  }

  /// Starts a server of `service`, which must end before this listener; null: gRPC refuses the credentials. `name` is
  /// for the log.
  std::unique_ptr<grpc::Server> serve(const std::string& name,
                                      const std::shared_ptr<grpc::ServerCredentials>& credentials,
                                      grpc::Service* service) {
    if (!are_good(credentials, service)) return nullptr;
    grpc::ServerBuilder builder;
    using From = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
    acceptor_ = builder.experimental().AddExternalConnectionAcceptor(From::FROM_FD, credentials);
    const auto patience = std::chrono::duration_cast<milliseconds>(GuardedListener::kPatience);
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, static_cast<int>(patience.count()));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kCalls);
    builder.RegisterService(service);
    auto server = builder.BuildAndStart();
    if (!server) return nullptr;
    const std::string log_name = name + " at " + local();
    listener_->start(log_name, connection_limits(GuardedListener::kDescriptors), [this](Fd connection) {
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters accepted;
      accepted.fd = connection.release();
      acceptor_->HandleNewConnection(&accepted);
    });
    return server;
  }

  /// Takes no more connections. Call it before the server is shut down.
  void stop() { listener_->stop(); }

  /// The address as it was written, with the real port.
  std::string local() const {
    return text_.substr(0, text_.rfind(':')) + ":" + std::to_string(port_of(listener_->local()));
  }

 private:
  static constexpr int kCalls = 128;  // Most calls at a time over one connection.

  /// Tries a port of gRPC's own: with another one gRPC does not report bad credentials.
  static bool are_good(const std::shared_ptr<grpc::ServerCredentials>& credentials, grpc::Service* service) {
    grpc::ServerBuilder trial;
    trial.AddListeningPort("127.0.0.1:0", credentials);
    trial.RegisterService(service);
    return trial.BuildAndStart() != nullptr;
  }

  GrpcListener(std::string text, std::unique_ptr<GuardedListener> listener)
      : text_(std::move(text)), listener_(std::move(listener)) {}

  const std::string text_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<GuardedListener> listener_;  // The last member: its thread uses the others.
};

}  // namespace switchml
