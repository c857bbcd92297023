// The controller as a whole: links to the switches, the gRPC service, and metrics.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "controller/topology.h"
#include "controllerd/tokens.h"

namespace switchml {

/// TLS as PEM texts, not files. Empty: none.
struct TlsTexts {
  std::string certificate;  // of the controller, for its own service and towards agents
  std::string key;
  std::string client_ca;  // who may connect; empty: anybody, with a token
  std::string agent_ca;   // who signs agents' certificates; empty: no TLS towards agents
};

struct ControllerOptions {
  controller::Topology topology;
  std::string listen = "0.0.0.0:48880";  // HOST:PORT; port 0 takes a free one
  std::vector<Token> tokens;             // none: anybody may ask
  TlsTexts tls;
  std::string metrics;  // HOST:PORT; empty: none
};

class ControllerServer {
 public:
  /// Listens, and connects to the switches in the background. kUnavailable: an address cannot be had; kUnsupported:
  /// this build has no metrics.
  static Result<std::unique_ptr<ControllerServer>> start(const ControllerOptions& options);
  virtual ~ControllerServer() = default;
  /// The address it listens on, with the real port.
  virtual std::string local() const = 0;
};

}  // namespace switchml
