// The fast parts of benchmarks/switch: `bench_switch load`, workers that keep a switch busy and check what it sums, and
// `bench_switch reflect`, the ceiling. benchmarks/switch/__main__.py starts both; `load` prints one line of JSON.
#include <cstdio>
#include <string>

#include "base/command_line.h"
#include "base/limits.h"
#include "base/log.h"
#include "process_time.h"
#include "reflector.h"
#include "socket/address.h"
#include "worker.h"

namespace switchml::bench {
namespace {

constexpr double kWarmUp = 0.5;  // Seconds.
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

/// All counters at one moment.
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

/// Sleeps, until a worker fails at the latest.
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

constexpr const char* kUsage =
    "usage: bench_switch load --to ADDRESS:PORT --pid PID [OPTION]...\n"
    "       bench_switch reflect --to ADDRESS:PORT   (listens there and sends back what arrives)\n";

std::vector<Option> table(Options* options) {
  Load& load = options->load;
  return {
      {"to", value::word("ADDRESS:PORT", &options->address), "where packets go, or the reflector listens"},
      {"workers", value::whole(1, kMaxWorkers, &load.workers), "that send"},
      {"payload", value::payload_size(&load.payload_bytes), "of a packet"},
      {"slots", value::whole(0, kMaxSlots, &load.slots, ", 0 for what the switch grants"), "in flight per worker"},
      {"seconds", value::whole(1, 3600, &options->seconds), "that are measured"},
      {"reflect", value::flag(&load.reflect), "there is a reflector in the place of a switch"},
      {"pid", value::whole(1, INT32_MAX, &options->pid), "the process of the switch, whose CPU time is read", "none"}};
}

int run(int argc, char** argv) {
  Options options;
  const std::string mode = argc > 1 ? argv[1] : "";
  const bool known = mode == "load" || mode == "reflect";
  const auto check = [&](const Given&) {
    return known ? Status() : Status(Code::kInvalidArgument, "the first argument must be load or reflect: see --help");
  };
  const int skipped = known ? 1 : 0;
  const auto left = answer_command_line(argc - skipped, argv + skipped, kUsage, table(&options), check);
  if (left) return *left;
  auto address = resolve_address(options.address, "--to");
  if (!address.ok()) return fail(address.status().message(), 2);
  if (mode == "reflect") return fail(reflect(address.value()).message());
  options.load.to = address.value();
  return load(options);
}

}  // namespace
}  // namespace switchml::bench

int main(int argc, char** argv) { return switchml::bench::run(argc, argv); }
