// The controller as a whole: links to the switches, the gRPC service, and metrics.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/grpc_listener.h"
#include "base/status.h"
#include "controller/topology.h"
#include "controllerd/dispatcher.h"
#include "controllerd/service.h"
#include "controllerd/tokens.h"
#include "transport/http_server.h"

namespace switchml {

/// TLS as PEM texts, not files. Empty: none.
struct TlsTexts {
  std::string certificate;  // The controller's, for its own service and towards agents.
  std::string key;
  std::string client_ca;  // The authority of clients' certificates; empty: clients need none.
  std::string agent_ca;   // The authority of agents' certificates; empty: no TLS towards agents.
};

struct ControllerOptions {
  controller::Topology topology;
  std::string listen = "0.0.0.0:48880";  // HOST:PORT; port 0 takes a free one.
  std::vector<Token> tokens;             // None: all callers are allowed.
  TlsTexts tls;
  std::string metrics;  // HOST:PORT; empty: none.
};

class ControllerServer {
 public:
  /// Listens, and connects to the switches in the background. kUnavailable: an address cannot be had.
  static Result<std::unique_ptr<ControllerServer>> start(const ControllerOptions& options);
  ~ControllerServer();
  ControllerServer(const ControllerServer&) = delete;
  ControllerServer& operator=(const ControllerServer&) = delete;
  /// The listening address, with the real port.
  std::string local() const { return listener_->local(); }

 private:
  explicit ControllerServer(const ControllerOptions& options);
  Status listen(const ControllerOptions& options);

  Dispatcher dispatcher_;
  ControllerService service_;
  std::unique_ptr<GrpcListener> listener_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<HttpServer> metrics_;
};

}  // namespace switchml
