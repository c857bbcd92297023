// Ranks that are processes without PyTorch open a group through a store that is a folder.
//
//   bench_opening RANKS FOLDER [NAMESPACE...]
//
// The ranks are spread over the network namespaces, files to enter them by. Prints what they took, as JSON: seconds
// until the last rank's session was open, and until a first all-reduce of it had ended; CPU seconds of all until then;
// bytes of memory that all take together when the group is open; what they asked of the store, where waiting for a key
// is one read each time that it is looked for.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <future>
#include <sstream>
#include <string>
#include <vector>

#include "base/limits.h"
#include "session/session.h"
#include "store/rendezvous.h"

namespace switchml {
namespace {

constexpr Duration kPatience = seconds(300);
constexpr size_t kElements = 16;

struct StoreUse {
  std::atomic<uint64_t> reads{0}, writes{0}, read_bytes{0}, written_bytes{0};
};

/// In memory of all processes.
struct Figures {
  StoreUse store;
  std::atomic<int> ready{0}, used{0}, failed{0};
  std::atomic<int64_t> open_at{0}, used_at{0}, cpu_us{0};  // The latest, and the sum.
};

void raise_to(std::atomic<int64_t>* most, int64_t value) {
  int64_t seen = most->load();
  while (seen < value && !most->compare_exchange_weak(seen, value)) {
  }
}

int64_t now_ns() { return monotonic_now().time_since_epoch().count(); }

/// A key is a file.
class FolderStore : public Rendezvous {
 public:
  FolderStore(std::string folder, StoreUse& use) : folder_(std::move(folder)), use_(use) {}
  Status set(const std::string& key, const std::string& value) override {
    ++use_.writes;
    use_.written_bytes += value.size();
    const std::string path = path_of(key), unfinished = path + "." + std::to_string(::getpid());
    std::ofstream(unfinished) << value;
    if (std::rename(unfinished.c_str(), path.c_str()) == 0) return {};
    return {Code::kUnavailable, "cannot write " + path};
  }
  Result<std::string> get(const std::string& key, Time deadline) override {
    for (;;) {
      ++use_.reads;
      if (const std::ifstream file(path_of(key)); file) {
        std::ostringstream text;
        text << file.rdbuf();
        use_.read_bytes += text.str().size();
        return text.str();
      }
      if (monotonic_now() >= deadline) return Status(Code::kTimeout, key);
      ::usleep(1000);
    }
  }

 private:
  std::string path_of(std::string key) const {
    std::replace(key.begin(), key.end(), '/', '-');
    return folder_ + "/" + key;
  }
  const std::string folder_;
  StoreUse& use_;
};

Status use(Session& session, int ranks) {
  std::vector<float> values(kElements, 1);
  std::promise<Status> done;
  Collective call;
  call.count = kElements;
  call.deadline = monotonic_now() + kPatience;
  call.operands()->input = values.data();
  call.operands()->output = {values.data(), 0, kElements};
  call.done = [&done](const Status& status) { done.set_value(status); };
  session.engine().submit(std::move(call));
  const Status status = done.get_future().get();
  const bool right = std::all_of(values.begin(), values.end(), [&](float v) { return v == static_cast<float>(ranks); });
  return !status.ok() || right ? status : Status(Code::kInternal, "the sum is wrong");
}

Config config_of(bool several_hosts) {
  Config config;
  config.connect_timeout = kPatience;
  if (several_hosts) config.interface = "data";
  return config;
}

int64_t own_cpu_us() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto us = [](const timeval& t) { return int64_t{t.tv_sec} * 1000000 + t.tv_usec; };
  return us(usage.ru_utime) + us(usage.ru_stime);
}

void await(int pipe) {
  char none = 0;
  while (::read(pipe, &none, 1) < 0 && errno == EINTR) {
  }
}

/// `go` and `end` are closed by the parent when it is time.
Status be_rank(int rank, int ranks, bool several_hosts, const std::string& folder, int go, int end, Figures* figures) {
  FolderStore store(folder, figures->store);
  ++figures->ready;
  await(go);
  const int64_t before = own_cpu_us();
  auto session =
      Session::open(config_of(several_hosts), {rank, ranks, "the group"}, store, monotonic_now() + kPatience);
  if (!session.ok()) return session.status();
  raise_to(&figures->open_at, now_ns());
  const Status status = use(*session.value(), ranks);
  raise_to(&figures->used_at, now_ns());
  figures->cpu_us += own_cpu_us() - before;
  ++figures->used;
  await(end);
  return status;
}

bool enter(const std::string& name) {
  const int file = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
  return file >= 0 && ::setns(file, CLONE_NEWNET) == 0 && ::close(file) == 0;
}

int64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;) {
    int64_t kib = 0;
    if (word == "MemAvailable:" && file >> kib) return kib * 1024;
  }
  return 0;
}

bool await_all(const std::atomic<int>& count, int ranks, const Figures& figures) {
  const Time end = monotonic_now() + kPatience;
  while (count < ranks && figures.failed == 0 && monotonic_now() < end) ::usleep(20000);
  return count == ranks;
}

void print(const Figures& figures, int64_t begin, int64_t memory) {
  const auto whole = [](const std::atomic<uint64_t>& n) { return static_cast<unsigned long long>(n.load()); };
  const auto since = [begin](const std::atomic<int64_t>& at) { return static_cast<double>(at - begin) / 1e9; };
  std::printf("{\"open\": %.6f, \"used\": %.6f, \"CPU\": %.6f, \"memory\": %lld, ", since(figures.open_at),
              since(figures.used_at), static_cast<double>(figures.cpu_us) / 1e6, static_cast<long long>(memory));
  std::printf("\"reads\": %llu, \"writes\": %llu, \"read_bytes\": %llu, \"written_bytes\": %llu}\n",
              whole(figures.store.reads), whole(figures.store.writes), whole(figures.store.read_bytes),
              whole(figures.store.written_bytes));
}

int run(int ranks, const std::string& folder, const std::vector<std::string>& namespaces) {
  void* const memory = ::mmap(nullptr, sizeof(Figures), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  auto* const figures = new (memory) Figures;
  int go[2], end[2];
  if (::pipe(go) != 0 || ::pipe(end) != 0) return 1;
  const int64_t before = available_bytes();
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t process = ::fork();
    if (process < 0) {
      std::fprintf(stderr, "rank %d: fork: no process\n", rank);
      figures->failed = 1;
      break;
    }
    if (process != 0) continue;
    ::close(go[1]);
    ::close(end[1]);
    const size_t host = static_cast<size_t>(rank) * namespaces.size() / static_cast<size_t>(ranks);
    Status status(Code::kUnavailable, "cannot enter its namespace");
    if (namespaces.empty() || enter(namespaces[host]))
      status = be_rank(rank, ranks, !namespaces.empty(), folder, go[0], end[0], figures);
    if (!status.ok()) {
      figures->failed = 1;
      std::fprintf(stderr, "rank %d: %s\n", rank, status.to_string().c_str());
    }
    ::_exit(status.ok() ? 0 : 1);
  }
  bool good = await_all(figures->ready, ranks, *figures);
  const int64_t begin = now_ns();
  ::close(go[1]);
  good = good && await_all(figures->used, ranks, *figures);
  const int64_t taken = before - available_bytes();
  ::close(end[1]);
  for (int status = 0; ::wait(&status) > 0;) good = good && status == 0;
  if (good) print(*figures, begin, taken);
  return good ? 0 : 1;
}

}  // namespace
}  // namespace switchml

int main(int count, char** words) {
  const int ranks = count > 2 ? std::atoi(words[1]) : 0;
  if (ranks >= 2) return switchml::run(ranks, words[2], std::vector<std::string>(words + 3, words + count));
  std::fprintf(stderr, "usage: bench_opening RANKS FOLDER [NAMESPACE...]\n");
  return 2;
}
