#include "transport/http_server.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <utility>

#include "base/thread.h"
#include "socket/address.h"
#include "transport/tcp_socket.h"

namespace switchml {

namespace {

constexpr size_t kMostHeadBytes = 8192;

/// Bounds the time that an idle connection may take.
void set_patience(int fd) {
  const timeval patience{std::chrono::duration_cast<seconds>(GuardedListener::kPatience).count(), 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  ::fcntl(fd, F_SETFL, 0);  // Makes it block.
}

/// The head of a request; empty: there is none.
std::string read_head(int fd) {
  std::string head;
  char bytes[1024];
  while (head.find("\r\n\r\n") == std::string::npos) {
    const ssize_t got = ::recv(fd, bytes, sizeof bytes, 0);
    if (got <= 0 || head.size() > kMostHeadBytes) return {};
    head.append(bytes, static_cast<size_t>(got));
  }
  return head;
}

void write_all(int fd, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t sent = ::send(fd, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (sent <= 0) return;
    done += static_cast<size_t>(sent);
  }
}

std::string response(const std::string& status, const std::string& type, const std::string& body) {
  return "HTTP/1.1 " + status + "\r\nContent-Type: " + type + "\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\nConnection: close\r\n\r\n" + body;
}

}  // namespace

HttpServer::HttpServer(std::unique_ptr<GuardedListener> listener, Page page)
    : page_(std::move(page)), listener_(std::move(listener)) {
  try {
    for (size_t i = 0; i < page_.connections; ++i) threads_.push_back(make_thread("an HTTP server", [this] { run(); }));
    listener_->start("HTTP at " + local(), {page_.connections, (page_.connections + 1) / 2}, [this](Fd connection) {
      const std::lock_guard<std::mutex> lock(mutex_);
      waiting_.push_back(std::move(connection));
      changed_.notify_one();
    });
  } catch (const NoThread&) {
    stop();
    throw;
  }
}

HttpServer::~HttpServer() { stop(); }
std::string HttpServer::local() const { return to_string(listener_->local()); }

void HttpServer::stop() {
  listener_->stop();
  listener_->cut();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

void HttpServer::run() {
  for (Fd connection; take(&connection); end_tcp(std::move(connection))) answer(connection.get());
}

bool HttpServer::take(Fd* out) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return ended_ || !waiting_.empty(); });
  if (ended_) return false;
  *out = std::move(waiting_.front());
  waiting_.pop_front();
  return true;
}

void HttpServer::answer(int fd) {
  set_patience(fd);
  const std::string head = read_head(fd);
  if (head.empty()) return;
  const std::string line = "GET " + page_.path;
  const bool asks = head.rfind(line + " ", 0) == 0 || head.rfind(line + "?", 0) == 0;
  if (!asks) {
    return write_all(fd, response("404 Not Found", "text/plain", "GET " + page_.path + "\n"));
  }
  write_all(fd, response("200 OK", page_.type, text()));
}

std::string HttpServer::text() {
  const std::lock_guard<std::mutex> lock(page_mutex_);
  return page_.text();
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const std::string& what, const std::string& address, Page page) {
  auto listener = GuardedListener::open(address, what);
  if (!listener.ok()) return listener.status();
  try {
    return std::unique_ptr<HttpServer>(new HttpServer(std::move(listener.value()), std::move(page)));
  } catch (const NoThread& none) {
    return none.status();
  }
}

}  // namespace switchml
