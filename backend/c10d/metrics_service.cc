#include "c10d/metrics_service.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>
#include <random>
#include <system_error>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/thread.h"
#include "socket/address.h"
#include "socket/fd.h"
#include "transport/http_server.h"

namespace switchml {
namespace {

constexpr size_t kConnections = 4;  // Few threads: ranks are many.
constexpr long kPorts = 128;        // As many ranks as a host may have, of several jobs.
constexpr std::chrono::seconds kBetweenWrites{5};
constexpr time_t kForgottenAfter = 300;  // Seconds without a write.
constexpr const char* kPrefix = "switchml_";

/// How the text reaches its readers. The destructor ends it.
class Outlet {
 public:
  virtual ~Outlet() = default;
  virtual std::string place() const = 0;
  /// In a forked child, which keeps the object for ever.
  virtual void close_in_child() {}
};

class Port : public Outlet {
 public:
  explicit Port(std::unique_ptr<HttpServer> server) : server_(std::move(server)) {}
  std::string place() const override { return server_->local(); }
  void close_in_child() override { server_->close_in_child(); }

  /// On the first free port from that of `address` on, plus torchrun's number of the rank on its host.
  static Result<std::unique_ptr<Outlet>> open(const std::string& address, const MetricsService::Text& text) {
    const HttpServer::Page page{"/metrics", kMetricsContentType, [text] { return text({}); }, kConnections};
    const auto named = resolve_address(address, "SWITCHML_METRICS");
    if (!named.ok()) return named.status();
    const long first = port_of(named.value());
    const char* const local_rank = std::getenv("LOCAL_RANK");
    const long own = first == 0 || local_rank == nullptr ? 0 : std::clamp(std::atol(local_rank), 0L, kPorts - 1);
    Status last;
    for (long i = 0; i < (first == 0 ? 1 : kPorts); ++i) {
      const long port = first == 0 ? 0 : first + (own + i) % kPorts;
      if (port > 65535) continue;
      const Endpoint at = with_port(named.value(), static_cast<uint16_t>(port));
      auto server = HttpServer::start("SWITCHML_METRICS", to_string(at), page);
      if (server.ok()) return std::unique_ptr<Outlet>(new Port(std::move(server.value())));
      last = server.status();
    }
    if (first == 0) return last;
    const std::string ports = std::to_string(first) + " to " + std::to_string(std::min(first + kPorts - 1, 65535L));
    return Status(last.code(), "SWITCHML_METRICS=\"" + address + "\": no port from " + ports +
                                   " can be had; of the last one: " + last.message());
  }

 private:
  const std::unique_ptr<HttpServer> server_;
};

/// A file that is written anew every few seconds, and replaced at once, so that a reader finds all of it or none.
class File : public Outlet {
 public:
  File(const std::string& folder, MetricsService::Text text)
      : folder_(folder), process_(name_of_process()), text_(std::move(text)) {}
  ~File() override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ended_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
    ::unlink(place().c_str());
  }
  std::string place() const override { return path(".prom"); }

  static Result<std::unique_ptr<Outlet>> open(const std::string& folder, const MetricsService::Text& text) {
    auto file = std::make_unique<File>(folder, text);
    if (Status written = file->write(); !written.ok()) return written;
    file->forget_the_dead();
    file->thread_ = make_thread("metrics", [own = file.get()] { own->run(); });
    return std::unique_ptr<Outlet>(std::move(file));
  }

 private:
  /// Unlike that of any other process, also of containers that share the folder.
  static std::string name_of_process() {
    char text[32];
    std::snprintf(text, sizeof text, "%d-%08x", ::getpid(), std::random_device()());
    return text;
  }
  std::string path(const char* ending) const { return folder_ + "/" + kPrefix + process_ + ending; }

  void run() {
    pthread_setname_np(pthread_self(), "switchml-metric");
    bool warned = false;
    for (std::unique_lock<std::mutex> lock(mutex_); !changed_.wait_for(lock, kBetweenWrites, [&] { return ended_; });) {
      lock.unlock();
      const Status written = write();
      if (!written.ok() && !std::exchange(warned, true)) SWITCHML_LOG(kWarning) << "metrics: " << written.message();
      forget_the_dead();
      lock.lock();
    }
  }

  /// Others than this user may read it, whatever the process's mask.
  Status write() const {
    const std::string text = text_({{"process", process_}}), beside = path(".tmp");
    const auto failed = [&] {
      const std::string why = std::system_category().message(errno);
      ::unlink(beside.c_str());
      return Status(Code::kUnavailable, "SWITCHML_METRICS=\"" + folder_ + "\": cannot write " + beside + ": " + why);
    };
    const Fd file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (!file.valid()) return failed();
    for (size_t done = 0; done < text.size();) {
      const ssize_t n = ::write(file.get(), text.data() + done, text.size() - done);
      if (n < 0 && errno != EINTR) return failed();
      if (n > 0) done += static_cast<size_t>(n);
    }
    if (::fchmod(file.get(), 0644) != 0 || ::rename(beside.c_str(), place().c_str()) != 0) return failed();
    return {};
  }

  /// Whether path() may have made this name, of any process.
  static bool is_ours(const char* name) {
    int pid = 0;
    char of_process[9] = {};
    if (std::sscanf(name, "switchml_%d-%8[0-9a-f]", &pid, of_process) != 2 || pid <= 0) return false;
    char whole[64];
    for (const char* ending : {".prom", ".tmp"}) {
      std::snprintf(whole, sizeof whole, "%s%d-%s%s", kPrefix, pid, of_process, ending);
      if (std::strlen(of_process) == 8 && std::strcmp(name, whole) == 0) return true;
    }
    return false;
  }

  /// Removes what processes of this user have left that did not end by themselves. One that was stopped writes its file
  /// again.
  void forget_the_dead() const {
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(folder_.c_str()), ::closedir);
    if (folder == nullptr) return;
    while (const dirent* entry = ::readdir(folder.get())) {
      if (!is_ours(entry->d_name)) continue;
      struct stat found {};
      const int at = ::dirfd(folder.get());
      const bool old = ::fstatat(at, entry->d_name, &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(found.st_mode) &&
                       found.st_uid == ::geteuid() && ::time(nullptr) - found.st_mtime > kForgottenAfter;
      if (old) ::unlinkat(at, entry->d_name, 0);
    }
  }

  const std::string folder_, process_;
  const MetricsService::Text text_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;
};

struct State {
  std::mutex mutex;
  std::unique_ptr<Outlet> outlet;
};
State* current = nullptr;  // Outlives static destructors.

State& state() {
  static const bool made = [] {
    current = new State;
    pthread_atfork([] { current->mutex.lock(); }, [] { current->mutex.unlock(); },
                   [] {
                     if (current->outlet) current->outlet->close_in_child();
                     current = new State;  // The threads are the parent's.
                   });
    return true;
  }();
  static_cast<void>(made);
  return *current;
}

Result<std::unique_ptr<Outlet>> open(const std::string& where, const MetricsService::Text& text) {
  try {
    return where.front() == '/' ? File::open(where, text) : Port::open(where, text);
  } catch (const NoThread& none) {
    return none.status();
  }
}

}  // namespace

void MetricsService::begin(const std::string& where, Text text) {
  if (where.empty()) return;
  const std::lock_guard<std::mutex> lock(state().mutex);
  if (state().outlet) return;
  auto outlet = open(where, text);
  if (!outlet.ok()) {
    SWITCHML_LOG(kWarning) << "no metrics: " << outlet.status().message();
    return;
  }
  state().outlet = std::move(outlet.value());
  SWITCHML_LOG(kInfo) << "metrics: " << state().outlet->place();
}

void MetricsService::end() {
  std::unique_ptr<Outlet> ended;  // It ends after the lock is free: its threads may be in a text that asks for place().
  const std::lock_guard<std::mutex> lock(state().mutex);
  ended = std::move(state().outlet);
}

std::string MetricsService::place() {
  const std::lock_guard<std::mutex> lock(state().mutex);
  return state().outlet ? state().outlet->place() : "";
}

}  // namespace switchml
