// HTTP for monitoring systems: GET of one path.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "transport/guarded_listener.h"

namespace switchml {

class HttpServer {
 public:
  struct Page {
    std::string path;  // "/metrics"; other paths are not found.
    std::string type;  // The content's type.
    /// Called by one thread at a time, for each request.
    std::function<std::string()> text;
    size_t connections = 8;  // At a time, half of them from one address. Each has a thread.
  };
  /// Serves until destroyed. `address`: ADDRESS:PORT of the option `what`, for errors.
  static Result<std::unique_ptr<HttpServer>> start(const std::string& what, const std::string& address, Page page);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  /// ADDRESS:PORT, with the real port.
  std::string local() const;
  /// In a forked child, which has none of its threads and keeps it for ever: the port is the parent's alone.
  void close_in_child() { listener_->close_in_child(); }

 private:
  HttpServer(std::unique_ptr<GuardedListener> listener, Page page);
  void stop();
  void run();
  bool take(Fd* out);
  void answer(int fd);
  std::string text();

  const Page page_;
  std::mutex page_mutex_, mutex_;
  std::condition_variable changed_;
  std::deque<Fd> waiting_;
  bool ended_ = false;
  std::vector<std::thread> threads_;
  std::unique_ptr<GuardedListener> listener_;
};

}  // namespace switchml
