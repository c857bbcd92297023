#include "controllerd/server.h"

#include <grpcpp/grpcpp.h>
#include <sys/random.h>

#include "api/grpc_listener.h"
#include "controllerd/dispatcher.h"
#include "controllerd/metrics.h"
#include "controllerd/service.h"

namespace switchml {

namespace {

constexpr Duration kShutdownLimit = seconds(1);

uint64_t system_random() {
  uint64_t value = 0;
  while (getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
  }
  return value;
}

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

class GrpcControllerServer final : public ControllerServer {
 public:
  explicit GrpcControllerServer(const ControllerOptions& options)
      : dispatcher_(options.topology, system_random(), agent_credentials(options.tls)),
        service_(dispatcher_, options.tokens) {}

  ~GrpcControllerServer() override {
    dispatcher_.stop();  // calls and scrapes that wait are answered, so that nobody need wait for them
    metrics_.reset();
    if (listener_) listener_->stop();
    if (server_) server_->Shutdown(std::chrono::system_clock::now() + kShutdownLimit);
  }

  Status listen(const ControllerOptions& options) {
    auto listener = GrpcListener::open("--listen", options.listen);
    if (!listener.ok()) return listener.status();
    listener_ = std::move(listener.value());
    server_ = listener_->serve("the controller", server_credentials(options.tls), &service_);
    if (!server_) return {Code::kInvalidArgument, "--tls-cert and --tls-key: they do not fit each other"};
    if (!options.metrics.empty()) {
      auto metrics = Metrics::serve(options.metrics, dispatcher_);
      if (!metrics.ok()) return metrics.status();
      metrics_ = std::move(metrics.value());
    }
    dispatcher_.connect();  // last: it resets the switches
    return {};
  }

  std::string local() const override { return listener_->local(); }

 private:
  Dispatcher dispatcher_;
  ControllerService service_;
  std::unique_ptr<GrpcListener> listener_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Metrics> metrics_;
};

}  // namespace

Result<std::unique_ptr<ControllerServer>> ControllerServer::start(const ControllerOptions& options) {
  auto server = std::make_unique<GrpcControllerServer>(options);
  if (Status status = server->listen(options); !status.ok()) return status;
  return std::unique_ptr<ControllerServer>(std::move(server));
}

}  // namespace switchml
