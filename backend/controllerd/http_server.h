// The little of HTTP that a monitoring system needs: GET of one path.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"

namespace switchml {

class HttpServer {
 public:
  static constexpr size_t kConnections = 8;  // a thread each
  static constexpr size_t kFromAddress = 4;

  struct Page {
    std::string path;  // "/metrics"; all others are not found
    std::string type;  // of its content
    /// Called by one thread at a time, for each request.
    std::function<std::string()> text;
  };
  /// Serves until destroyed. `address`: ADDRESS:PORT of the option `what`, which an error names.
  static Result<std::unique_ptr<HttpServer>> start(const std::string& what, const std::string& address, Page page);
  virtual ~HttpServer() = default;
  /// ADDRESS:PORT, with the real port.
  virtual std::string local() const = 0;
};

}  // namespace switchml
