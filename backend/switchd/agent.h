// The agent of a software switch: serves the API's `DataPlane` to a controller. It makes no decisions: it applies calls
// to the switch, and forwards control packets of workers.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "softswitch/switch.h"
#include "switchd/server.h"

namespace switchml {

struct AgentOptions {
  std::string listen;       // ADDRESS:PORT; port 0 takes a free one.
  std::string token;        // The controller's token; empty: none (--insecure-no-token).
  std::string certificate;  // PEM texts; empty: no TLS.
  std::string key;
};

/// The server borrows the agent (ServerOptions::control) and the agent the server: create the agent, start the server,
/// serve(); at the end stop(), then destroy the server, then the agent.
class Agent : public softswitch::ControlTap {
 public:
  static std::unique_ptr<Agent> create(const AgentOptions& options);
  /// Serves the controller from now on. kUnavailable: the address cannot be had. `server` is borrowed until stop().
  virtual Status serve(SwitchServer& server) = 0;
  /// The listening address, with the real port. Precondition: serves.
  virtual std::string local() const = 0;
  /// Ends all calls. Idempotent.
  virtual void stop() = 0;
};

}  // namespace switchml
