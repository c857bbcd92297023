// bench_profile: all-reduces with the same instructions in every run, for benchmarks/profile to count, and for
// benchmarks/compare to time. One thread takes all ranks and the switch in rotation (path.h). Every result is checked
// bit for bit. The last line of output is a JSON object.
#include <sys/resource.h>

#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "base/command_line.h"
#include "base/limits.h"
#include "kernels/kernels.h"
#include "path.h"

using switchml::profile::Path;

// A profiler counts the instructions inside functions of these names.
extern "C" {
[[gnu::noinline]] void switchml_profile_ranks(Path* path) { path->ranks_turn(); }
[[gnu::noinline]] void switchml_profile_switch(Path* path) { path->switch_turn(); }
}

namespace {

using switchml::profile::PathOptions;
using switchml::profile::Tensors;

constexpr int kMostRanks = 16;
constexpr double kPatience = 600;         // Seconds for one all-reduce, under a profiler.
constexpr uint64_t kTurnsPerLook = 1024;  // The clock is read rarely: its instructions would be counted.

struct Options {
  PathOptions path;
  size_t bytes = 4 << 20;
  int calls = 1;
};

// Integers of 16 bits, so that sums are exact in float32; neighbouring ranks and elements differ.
float value(size_t rank, size_t element) {
  return static_cast<float>(static_cast<int32_t>((element * 2654435761U + rank * 40503U) % 65521U) - 32760);
}

void fill(Tensors& tensors) {
  for (size_t rank = 0; rank < tensors.size(); ++rank) {
    for (size_t i = 0; i < tensors[rank].size(); ++i) tensors[rank][i] = value(rank, i);
  }
}

// The mistake in the results, or empty.
std::string difference(const Tensors& tensors) {
  for (size_t rank = 0; rank < tensors.size(); ++rank) {
    for (size_t i = 0; i < tensors[rank].size(); ++i) {
      float sum = 0;
      for (size_t other = 0; other < tensors.size(); ++other) sum += value(other, i);
      if (tensors[rank][i] == sum) continue;
      return "rank " + std::to_string(rank) + ", element " + std::to_string(i) + ": " +
             std::to_string(tensors[rank][i]) + " instead of " + std::to_string(sum);
    }
  }
  return "";
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

struct Spent {
  double user = 0;
  double system = 0;
  double wall = 0;
};

Spent now() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return {seconds_of(usage.ru_utime), seconds_of(usage.ru_stime),
          static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec)};
}

// Runs an all-reduce; with `counted`, under the names that a profiler knows. Returns the failure, or empty.
std::string reduce(Path& path, Tensors& tensors, bool counted, Spent* spent) {
  fill(tensors);
  const Spent begin = now();
  path.submit(tensors);
  for (uint64_t turn = 1; path.ranks_left() > 0; ++turn) {
    if (turn % kTurnsPerLook == 0 && now().wall - begin.wall > kPatience) return "an all-reduce does not complete";
    if (counted) {
      switchml_profile_ranks(&path);
      switchml_profile_switch(&path);
    } else {
      path.ranks_turn();
      path.switch_turn();
    }
  }
  const Spent end = now();
  spent->user += end.user - begin.user;
  spent->system += end.system - begin.system;
  spent->wall += end.wall - begin.wall;
  return path.status().ok() ? difference(tensors) : path.status().to_string();
}

constexpr const char* kUsage = "usage: bench_profile --path NAME [OPTION]...\n";

std::vector<switchml::Option> table(Options* options) {
  namespace value = switchml::value;
  PathOptions& path = options->path;
  switchml::OptionValue bytes = value::whole(4, 1 << 30, &options->bytes, ", a multiple of 4");
  bytes.take = [take = bytes.take, options](const std::string& text) { return take(text) && options->bytes % 4 == 0; };
  return {{"path", value::one_of({"inproc", "udp", "rdma", "memory"}, &path.name),
           "a switch, and queues of this process, loopback sockets or cards; or shared memory"},
          {"ranks", value::whole(1, kMostRanks, &path.ranks), "of the all-reduce"},
          {"payload", value::payload_size(&path.payload_bytes), "of a packet"},
          {"exact", value::flag(&path.exact), "floats travel as they are; over rdma they always do"},
          {"verbs", value::word("LIBRARY", &path.verbs), "of rdma: libibverbs, or what stands for it"},
          {"slots", value::whole(switchml::kMinSlots, switchml::kMaxSlots, &path.slots), "packets in flight per rank"},
          {"bytes", bytes, "of a rank's tensor"},
          {"calls", value::whole(1, 1000000, &options->calls), "all-reduces that count, behind one that does not"}};
}

int fail(const std::string& what) {
  std::fprintf(stderr, "bench_profile: %s\n", what.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  const auto check = [](const switchml::Given& given) {
    return given.count("path") != 0 ? switchml::Status()
                                    : switchml::Status(switchml::Code::kInvalidArgument, "--path NAME is needed");
  };
  const auto left = switchml::answer_command_line(argc, argv, kUsage, table(&options), check);
  if (left) return *left;
  options.path.exact = options.path.exact || options.path.name == "rdma";
  Tensors tensors(static_cast<size_t>(options.path.ranks), std::vector<float>(options.bytes / sizeof(float)));
  auto made = switchml::profile::make_path(options.path);
  if (!made.ok()) return fail(made.status().to_string());
  Path& path = *made.value();
  path.use(tensors);
  Spent spent;
  std::string wrong = reduce(path, tensors, false, &spent);
  spent = {};
  const switchml::profile::Work before = path.work();
  for (int call = 0; call < options.calls && wrong.empty(); ++call) wrong = reduce(path, tensors, true, &spent);
  if (!wrong.empty()) return fail(wrong);
  const switchml::profile::Work after = path.work();
  std::printf(
      "{\"path\": \"%s\", \"ranks\": %d, \"chunk_bytes\": %zu, \"slots\": %d, \"bytes\": %zu, \"calls\": %d, "
      "\"kernels\": \"%s\", "
      "\"chunks\": %llu, \"packets\": %llu, \"retransmissions\": %llu, "
      "\"user_seconds\": %.6f, \"system_seconds\": %.6f, \"wall_seconds\": %.6f}\n",
      options.path.name.c_str(), options.path.ranks, path.chunk_bytes(), path.slots(), options.bytes, options.calls,
      switchml::kernels().name, static_cast<unsigned long long>(after.chunks - before.chunks),
      static_cast<unsigned long long>(after.packets - before.packets),
      static_cast<unsigned long long>(after.retransmissions), spent.user, spent.system, spent.wall);
  return 0;
}
