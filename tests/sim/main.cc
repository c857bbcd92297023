// switchml_sim: simulates seeds until one breaks a rule, or all have passed.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>
#include <string>

#include "base/command_line.h"
#include "base/parse.h"
#include "simulation.h"
#include "stop.h"
#include "tally.h"

namespace switchml::sim {
namespace {

constexpr char kHelp[] =
    "switchml_sim: workers, switches and a hostile network in virtual time, from a seed (docs/testing.md)\n"
    "  --seeds A:B    seeds A to B (default: 1:2000)\n"
    "  --seed N       one seed, and its hash\n"
    "  --trace        with --seed: prints every event\n"
    "  --minutes M    seeds from A on for M minutes\n"
    "  --forever      seeds from A on until stopped\n"
    "SIGINT and SIGTERM stop it after the present seed, with the table; a second one at once.\n";

struct Arguments {
  uint64_t first = 1;
  uint64_t last = 2000;
  bool one = false;
  bool trace = false;
  std::optional<double> minutes;
  bool forever = false;
  bool help = false;
};

std::optional<uint64_t> whole(const std::string& text) {
  const auto number = parse_integer(text, 0, 999999999999999999L);
  if (!number) return std::nullopt;
  return static_cast<uint64_t>(*number);
}

Status bad(const std::string& option, const std::string& value, const std::string& allowed) {
  return {Code::kInvalidArgument, option + " " + value + ": allowed are " + allowed};
}

Status take_range(const std::string& value, Arguments* out) {
  const size_t colon = value.find(':');
  const auto first = whole(value.substr(0, colon));
  const auto last = colon == std::string::npos ? first : whole(value.substr(colon + 1));
  if (!first || !last || *first > *last) return bad("--seeds", value, "A:B, whole numbers with A <= B");
  out->first = *first;
  out->last = *last;
  return {};
}

Status take(int index, const std::string& value, Arguments* out) {
  if (index == 0) return take_range(value, out);
  const auto number = whole(value);
  if (index == 1) {
    if (!number) return bad("--seed", value, "whole numbers");
    out->one = true;
    out->first = out->last = *number;
  } else if (index == 2) {
    out->trace = true;
  } else if (index == 3) {
    if (!number || *number == 0) return bad("--minutes", value, "whole numbers above 0");
    out->minutes = static_cast<double>(*number);
  } else if (index == 4) {
    out->forever = true;
  } else {
    out->help = true;
  }
  return {};
}

Result<Arguments> parse(int argc, char** argv) {
  static const option kTable[] = {{"seeds", required_argument, nullptr, 0},
                                  {"seed", required_argument, nullptr, 0},
                                  {"trace", no_argument, nullptr, 0},
                                  {"minutes", required_argument, nullptr, 0},
                                  {"forever", no_argument, nullptr, 0},
                                  {"help", no_argument, nullptr, 0},
                                  {nullptr, 0, nullptr, 0}};
  Arguments out;
  const Status status = scan_options(argc, argv, kTable, [&out](int index, const std::string& value) {
    return take(index < 0 ? 5 : index, value, &out);
  });
  if (!status.ok()) return status;
  if (out.trace && !out.one) return bad("--trace", "without --seed", "--seed N --trace");
  return out;
}

class Clock {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

int run_one(const Arguments& arguments) {
  Simulation simulation(arguments.first, {arguments.trace, false, 0});
  const bool passed = simulation.run();
  std::printf("seed %llu hash %016llx\n", static_cast<unsigned long long>(arguments.first),
              static_cast<unsigned long long>(simulation.record().hash()));
  if (!passed) std::fputs(failure_report(arguments.first, simulation.record()).c_str(), stdout);
  return passed ? 0 : 1;
}

// With this many seeds each kind of fault occurs, or the simulation does not do what it says.
int check_coverage(const Tally& tally) {
  const std::string missing = tally.missing();
  if (tally.seeds() < 2000 || missing.empty()) return 0;
  std::printf("FAILED: these never occurred: %s\n", missing.c_str());
  return 1;
}

// Also when stopped: what has run counts.
int close_with(const Tally& tally, double seconds, bool complete) {
  std::fputs(tally.table(seconds).c_str(), stdout);
  const int stopped = stop_signal();
  if (stopped != 0) std::printf("stopped by %s: ", stopped == SIGINT ? "SIGINT" : "SIGTERM");
  std::printf("all %sseeds passed, commit %s\n", stopped != 0 ? "these " : "", commit().c_str());
  return complete ? check_coverage(tally) : 128 + stopped;
}

int run(const Arguments& arguments) {
  stop_on_signals();
  const Clock clock;
  Tally tally;
  const bool endless = arguments.forever || arguments.minutes.has_value();
  double told = 0;
  uint64_t seed = arguments.first;
  for (; endless || seed <= arguments.last; ++seed) {
    if (stop_signal() != 0) break;
    if (arguments.minutes && clock.seconds() >= *arguments.minutes * 60) break;
    Simulation simulation(seed, {});
    const bool passed = simulation.run();
    tally.add(simulation.record());
    if (!passed) {
      std::fputs(failure_report(seed, simulation.record()).c_str(), stdout);
      return 1;
    }
    if (clock.seconds() - told > 60) {
      told = clock.seconds();
      std::printf("up to seed %llu\n%s", static_cast<unsigned long long>(seed), tally.table(told).c_str());
      std::fflush(stdout);
    }
  }
  return close_with(tally, clock.seconds(), endless || seed > arguments.last);
}

}  // namespace
}  // namespace switchml::sim

int main(int argc, char** argv) {
  const auto arguments = switchml::sim::parse(argc, argv);
  if (!arguments.ok()) {
    std::fprintf(stderr, "switchml_sim: %s\n", arguments.status().message().c_str());
    return 2;
  }
  if (arguments.value().help) {
    std::fputs(switchml::sim::kHelp, stdout);
    return 0;
  }
  return arguments.value().one ? switchml::sim::run_one(arguments.value()) : switchml::sim::run(arguments.value());
}
