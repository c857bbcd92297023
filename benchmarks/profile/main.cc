// bench_profile: all-reduces whose instructions are the same in every run, for benchmarks/profile to count, and for
// benchmarks/compare to time. One thread takes all ranks and the switch in rotation (path.h). Every result is checked
// bit for bit. The last line of output is a JSON object.
#include <getopt.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

#include "base/limits.h"
#include "base/payload_size.h"
#include "path.h"
#include "quant/kernels.h"

using switchml::profile::Path;

// A profiler counts by these names what it is to count: what is inside of them and no more.
extern "C" {
[[gnu::noinline]] void switchml_profile_ranks(Path* path) { path->ranks_turn(); }
[[gnu::noinline]] void switchml_profile_switch(Path* path) { path->switch_turn(); }
}

namespace {

using switchml::profile::PathOptions;
using Tensors = std::vector<std::vector<float>>;

constexpr int kMostRanks = 16;
constexpr double kPatience = 600;         // seconds for one all-reduce, under a profiler
constexpr uint64_t kTurnsPerLook = 1024;  // at the clock, whose system calls would be counted

struct Options {
  PathOptions path;
  size_t bytes = 4 << 20;
  int calls = 1;
};

// Integers of 16 bits whose sums are exact in float32; neighbouring ranks and elements differ.
float value(size_t rank, size_t element) {
  return static_cast<float>(static_cast<int32_t>((element * 2654435761U + rank * 40503U) % 65521U) - 32760);
}

void fill(Tensors& tensors) {
  for (size_t rank = 0; rank < tensors.size(); ++rank) {
    for (size_t i = 0; i < tensors[rank].size(); ++i) tensors[rank][i] = value(rank, i);
  }
}

// Empty, or what is wrong.
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

// One all-reduce; with `counted`, under the names that a profiler knows. Empty, or what failed.
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

void usage(std::FILE* to) {
  std::fputs(
      "usage: bench_profile --path NAME [--ranks N] [--payload BYTES] [--slots N] [--bytes N] [--calls N]\n"
      "  --path NAME      inproc (a switch, queues of this process), udp (a switch, loopback sockets) or memory "
      "(shared)\n"
      "  --ranks N        1..16 (default 2)\n"
      "  --payload BYTES  of a packet: 256, 512, a multiple of 128 from 1024 to 2048, or of 1024 up to 64512 (1024)\n"
      "  --slots N        packets in flight per rank, 4..4096 (default 128)\n"
      "  --bytes N        of a rank's tensor, 4..1073741824, a multiple of 4 (default 4194304)\n"
      "  --calls N        all-reduces that count, behind one that does not, 1..1000000 (default 1)\n",
      to);
}

[[noreturn]] void refuse(const std::string& option, const std::string& value, const std::string& allowed) {
  std::fprintf(stderr, "bench_profile: %s %s is not allowed: use %s\n", option.c_str(), value.c_str(), allowed.c_str());
  std::exit(2);
}

size_t number(const char* option, const char* text, size_t low, size_t high) {
  char* end = nullptr;
  errno = 0;
  const unsigned long long parsed = std::strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || parsed < low || parsed > high) {
    refuse(option, text, std::to_string(low) + " to " + std::to_string(high));
  }
  return static_cast<size_t>(parsed);
}

Options parse(int argc, char** argv) {
  static const option kLong[] = {
      {"path", required_argument, nullptr, 't'},    {"ranks", required_argument, nullptr, 'r'},
      {"payload", required_argument, nullptr, 'p'}, {"slots", required_argument, nullptr, 's'},
      {"bytes", required_argument, nullptr, 'b'},   {"calls", required_argument, nullptr, 'c'},
      {"help", no_argument, nullptr, 'h'},          {nullptr, 0, nullptr, 0}};
  Options options;
  for (int c = 0; (c = getopt_long(argc, argv, "", kLong, nullptr)) != -1;) {
    switch (c) {
      case 't': options.path.name = optarg; break;
      case 'r': options.path.ranks = static_cast<int>(number("--ranks", optarg, 1, kMostRanks)); break;
      case 'p':
        options.path.payload_bytes =
            number("--payload", optarg, switchml::kMinPayloadBytes, switchml::kMaxPayloadBytes);
        break;
      case 's':
        options.path.slots = static_cast<int>(number("--slots", optarg, switchml::kMinSlots, switchml::kMaxSlots));
        break;
      case 'b': options.bytes = number("--bytes", optarg, 4, size_t{1} << 30); break;
      case 'c': options.calls = static_cast<int>(number("--calls", optarg, 1, 1000000)); break;
      case 'h': usage(stdout); std::exit(0);
      default: usage(stderr); std::exit(2);
    }
  }
  if (optind < argc) refuse("argument", argv[optind], "options only");
  if (options.path.name.empty()) refuse("--path", "(none)", "inproc, udp or memory");
  const size_t payload = options.path.payload_bytes;
  if (!switchml::is_allowed_payload(payload)) {
    refuse("--payload", std::to_string(payload), std::string(switchml::kAllowedPayloads) + " up to 64512");
  }
  if (options.bytes % 4 != 0) refuse("--bytes", std::to_string(options.bytes), "a multiple of 4");
  return options;
}

int fail(const std::string& what) {
  std::fprintf(stderr, "bench_profile: %s\n", what.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  auto made = switchml::profile::make_path(options.path);
  if (!made.ok()) return fail(made.status().to_string());
  Path& path = *made.value();
  Tensors tensors(static_cast<size_t>(options.path.ranks), std::vector<float>(options.bytes / sizeof(float)));
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
      switchml::quant::kernels().name, static_cast<unsigned long long>(after.chunks - before.chunks),
      static_cast<unsigned long long>(after.packets - before.packets),
      static_cast<unsigned long long>(after.retransmissions), spent.user, spent.system, spent.wall);
  return 0;
}
