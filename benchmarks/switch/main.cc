// The fast parts of benchmarks/switch: `bench_switch load`, workers that keep a switch busy and check what it sums, and
// `bench_switch reflect`, the ceiling. benchmarks/switch/__main__.py starts both; `load` prints one line of JSON.
#include <getopt.h>

#include <cstdio>
#include <string>

#include "base/log.h"
#include "base/parse.h"
#include "base/payload_size.h"
#include "process_time.h"
#include "reflector.h"
#include "socket/address.h"
#include "worker.h"

namespace switchml::bench {
namespace {

constexpr double kWarmUp = 0.5;  // seconds
constexpr const char* kThreadName = "switchml-switch";

struct Options {
  std::string address;
  Load load;
  int pid = 0;
  int seconds = 3;
};

int fail(const std::string& message, int status = 1) {
  std::fprintf(stderr, "bench_switch: %s\n", message.c_str());
  return status;
}

struct Totals {
  uint64_t packets_sent = 0, packets_received = 0, bytes_sent = 0, bytes_received = 0, results = 0, repeats = 0;
};

Totals totals(const std::vector<std::unique_ptr<Worker>>& workers) {
  Totals out;
  for (const auto& worker : workers) {
    const Progress& p = worker->progress();
    out.packets_sent += p.packets_sent;
    out.packets_received += p.packets_received;
    out.bytes_sent += p.bytes_sent;
    out.bytes_received += p.bytes_received;
    out.results += p.results;
    out.repeats += p.repeats;
  }
  return out;
}

/// Everything at one moment.
struct Sample {
  Time at;
  Totals totals;
  ProcessTime time;
};

Sample sample(const std::vector<std::unique_ptr<Worker>>& workers, int pid) {
  return {monotonic_now(), totals(workers), process_time(pid, kThreadName)};
}

void print(const Sample& a, const Sample& b, int slots) {
  std::printf(
      "{\"wall_seconds\": %.6f, \"cpu_seconds\": %.6f, \"user_seconds\": %.2f, \"system_seconds\": %.2f, \"threads\": "
      "%d, "
      "\"slots\": %d, \"packets_in\": %llu, \"packets_out\": %llu, \"bytes_in\": %llu, \"bytes_out\": %llu, "
      "\"verified\": %llu, \"repeated\": %llu}\n",
      to_seconds(b.at - a.at), b.time.cpu_seconds - a.time.cpu_seconds, b.time.user_seconds - a.time.user_seconds,
      b.time.system_seconds - a.time.system_seconds, b.time.threads, slots,
      static_cast<unsigned long long>(b.totals.packets_sent - a.totals.packets_sent),
      static_cast<unsigned long long>(b.totals.packets_received - a.totals.packets_received),
      static_cast<unsigned long long>(b.totals.bytes_sent - a.totals.bytes_sent),
      static_cast<unsigned long long>(b.totals.bytes_received - a.totals.bytes_received),
      static_cast<unsigned long long>(b.totals.results - a.totals.results),
      static_cast<unsigned long long>(b.totals.repeats - a.totals.repeats));
}

/// Sleeps, but not on when a worker has failed.
void pass(double duration, const std::vector<std::unique_ptr<Worker>>& workers) {
  const Time end = monotonic_now() + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(duration));
  while (monotonic_now() < end) {
    for (const auto& worker : workers) {
      if (worker->progress().failed) return;
    }
    std::this_thread::sleep_for(std::min<Duration>(milliseconds(10), end - monotonic_now()));
  }
}

int load(const Options& options) {
  std::vector<std::unique_ptr<Worker>> workers;
  for (int number = 0; number < options.load.workers; ++number) {
    auto worker = Worker::create(options.load, number);
    if (!worker.ok()) return fail(worker.status().message());
    workers.push_back(std::move(worker.value()));
  }
  const auto session = workers.front()->open();
  if (!session.ok()) return fail(session.status().message());
  for (const auto& worker : workers) {
    if (const Status status = worker->join(session.value()); !status.ok()) return fail(status.message());
  }
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (const auto& worker : workers) threads.emplace_back([&stop, &worker = *worker] { worker.run(stop); });
  pass(kWarmUp, workers);
  const Sample before = sample(workers, options.pid);
  pass(options.seconds, workers);
  const Sample after = sample(workers, options.pid);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  for (const auto& worker : workers) {
    if (!worker->error().empty()) return fail(worker->error());
  }
  if (after.totals.results == before.totals.results)
    return fail("no result came in " + std::to_string(options.seconds) + " s");
  if (after.time.threads == 0) return fail("process " + std::to_string(options.pid) + " has no thread " + kThreadName);
  print(before, after, session.value().slots);
  for (const auto& worker : workers) {
    if (const Status status = worker->close(); !status.ok()) return fail(status.message());
  }
  return 0;
}

constexpr const char* kHelp =
    "usage: bench_switch load --to ADDRESS:PORT --pid PID [OPTION]...\n"
    "       bench_switch reflect --to ADDRESS:PORT   (listens there and sends back what arrives)\n"
    "  --workers N    1 to 128 (2)\n"
    "  --payload B    bytes of payload: 256, 512, a multiple of 128 from 1024 to 2048, or of 1024 up to 64512 (8192)\n"
    "  --slots N      in flight per worker: 4 to 4096, or 0 for what the switch grants (0)\n"
    "  --seconds S    measured, 1 to 3600 (3)\n"
    "  --reflect      there is a reflector in the place of a switch\n"
    "  --pid PID      the process of the switch, whose CPU time is read\n";

enum Option { kTo = 1, kPid, kWorkers, kPayload, kSlots, kSeconds, kReflect, kHelpOption };

/// False: the value is not allowed.
bool apply(int option, const char* text, Options* options) {
  const std::string value = text == nullptr ? "" : text;
  const auto whole = [&value](long low, long high, auto* out) {
    const auto number = parse_integer(value, low, high);
    if (number) *out = static_cast<std::decay_t<decltype(*out)>>(*number);
    return number.has_value();
  };
  switch (option) {
    case kTo: options->address = value; return true;
    case kPid: return whole(1, INT32_MAX, &options->pid);
    case kWorkers: return whole(1, kMaxWorkers, &options->load.workers);
    case kPayload:
      return whole(kMinPayloadBytes, kMaxPayloadBytes, &options->load.payload_bytes) &&
             is_allowed_payload(options->load.payload_bytes);
    case kSlots: return whole(0, kMaxSlots, &options->load.slots);
    case kReflect: options->load.reflect = true; return true;
    case kSeconds: return whole(1, 3600, &options->seconds);
    default: return false;
  }
}

int run(int argc, char** argv) {
  constexpr option kOptions[] = {{"to", required_argument, nullptr, kTo},
                                 {"pid", required_argument, nullptr, kPid},
                                 {"workers", required_argument, nullptr, kWorkers},
                                 {"payload", required_argument, nullptr, kPayload},
                                 {"slots", required_argument, nullptr, kSlots},
                                 {"seconds", required_argument, nullptr, kSeconds},
                                 {"reflect", no_argument, nullptr, kReflect},
                                 {"help", no_argument, nullptr, kHelpOption},
                                 {nullptr, 0, nullptr, 0}};
  Options options;
  int index = 0;
  for (int found = 0; (found = getopt_long(argc, argv, "", kOptions, &index)) != -1;) {
    if (found == kHelpOption) return std::fputs(kHelp, stdout) < 0;
    if (found == '?') return fail(kHelp, 2);
    if (!apply(found, optarg, &options)) {
      return fail(std::string("--") + kOptions[index].name + "=" + (optarg ? optarg : "") + " is not allowed\n" + kHelp,
                  2);
    }
  }
  if (optind + 1 != argc) return fail(kHelp, 2);
  const std::string mode = argv[optind];
  if (mode != "load" && mode != "reflect") return fail("\"" + mode + "\": use load or reflect\n" + kHelp, 2);
  auto address = resolve_address(options.address, "--to");
  if (!address.ok()) return fail(address.status().message(), 2);
  if (mode == "reflect") return fail(reflect(address.value()).message());
  options.load.to = address.value();
  return load(options);
}

}  // namespace
}  // namespace switchml::bench

int main(int argc, char** argv) { return switchml::bench::run(argc, argv); }
