#include "controllerd/controller_server.h"

#include <grpcpp/grpcpp.h>

#include "base/random.h"
#include "controllerd/metrics.h"

namespace switchml {

namespace {

constexpr Duration kShutdownLimit = seconds(1);

std::shared_ptr<grpc::ServerCredentials> server_credentials(const TlsTexts& tls) {
  if (tls.certificate.empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options;
  options.pem_key_cert_pairs.push_back({tls.key, tls.certificate});
  if (!tls.client_ca.empty()) {
    options.pem_root_certs = tls.client_ca;
    options.client_certificate_request = GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
  }
  return grpc::SslServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> agent_credentials(const TlsTexts& tls) {
  if (tls.agent_ca.empty()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = tls.agent_ca;
  options.pem_private_key = tls.key;
  options.pem_cert_chain = tls.certificate;
  return grpc::SslCredentials(options);
}

}  // namespace

ControllerServer::ControllerServer(const ControllerOptions& options)
    : dispatcher_(options.topology, random_bits(), agent_credentials(options.tls)),
      service_(dispatcher_, options.tokens) {}

ControllerServer::~ControllerServer() {
  dispatcher_.stop();  // Answers calls and scrapes that wait.
  metrics_.reset();
  if (listener_) listener_->stop();
  if (server_) server_->Shutdown(std::chrono::system_clock::now() + kShutdownLimit);
}

Status ControllerServer::listen(const ControllerOptions& options) {
  auto listener = GrpcListener::open("--listen", options.listen);
  if (!listener.ok()) return listener.status();
  listener_ = std::move(listener.value());
  server_ = listener_->serve("the controller", server_credentials(options.tls), &service_);
  if (!server_) return {Code::kInvalidArgument, "--tls-cert and --tls-key: they do not fit each other"};
  if (!options.metrics.empty()) {
    auto metrics = serve_metrics(options.metrics, dispatcher_);
    if (!metrics.ok()) return metrics.status();
    metrics_ = std::move(metrics.value());
  }
  dispatcher_.connect();  // The last step: it resets the switches.
  return {};
}

Result<std::unique_ptr<ControllerServer>> ControllerServer::start(const ControllerOptions& options) {
  std::unique_ptr<ControllerServer> server(new ControllerServer(options));
  if (Status status = server->listen(options); !status.ok()) return status;
  return server;
}

}  // namespace switchml
