// switchml_sim: simulates seeds until one breaks a rule, or all have passed.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/command_line.h"
#include "base/parse.h"
#include "simulation.h"
#include "stop.h"
#include "tally.h"

namespace switchml::sim {
namespace {

constexpr char kUsage[] =
    "switchml_sim: workers, switches and a hostile network in virtual time, from a seed (tests/sim/README.md).\n"
    "SIGINT and SIGTERM stop it after the present seed, with the table; a second one at once.\n";
constexpr long kLastSeed = 999999999999999999L;

struct Arguments {
  uint64_t first = 1;
  uint64_t last = 2000;
  std::optional<uint64_t> one;
  bool trace = false;
  std::optional<long> minutes;
  bool forever = false;
};

OptionValue range(Arguments* out) {
  const auto take = [out](const std::string& text) {
    const size_t colon = text.find(':');
    const auto first = parse_integer(text.substr(0, colon), 0, kLastSeed);
    const auto last = colon == std::string::npos ? first : parse_integer(text.substr(colon + 1), 0, kLastSeed);
    if (!first || !last || *first > *last) return false;
    out->first = static_cast<uint64_t>(*first);
    out->last = static_cast<uint64_t>(*last);
    return true;
  };
  const auto print = [out] { return std::to_string(out->first) + ":" + std::to_string(out->last); };
  return {"A:B", "A:B, whole numbers with A <= B", take, print, true};
}

std::vector<Option> table(Arguments* out) {
  return {{"seeds", range(out), "seeds A to B"},
          {"seed", value::whole(0, kLastSeed, &out->one), "one seed, and its hash"},
          {"trace", value::flag(&out->trace), "with --seed: prints every event"},
          {"minutes", value::whole(1, 1000000, &out->minutes), "seeds from A on for so many minutes"},
          {"forever", value::flag(&out->forever), "seeds from A on until stopped"}};
}

class Clock {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

int run_one(uint64_t seed, bool trace) {
  Simulation simulation(seed, {trace, false, 0});
  const bool passed = simulation.run();
  std::printf("seed %llu hash %016llx\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(simulation.record().hash()));
  if (!passed) std::fputs(failure_report(seed, simulation.record()).c_str(), stdout);
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
  const bool endless = arguments.forever || arguments.minutes;
  double told = 0;
  uint64_t seed = arguments.first;
  for (; endless || seed <= arguments.last; ++seed) {
    if (stop_signal() != 0) break;
    if (arguments.minutes && clock.seconds() >= 60.0 * static_cast<double>(*arguments.minutes)) break;
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
  using namespace switchml::sim;
  Arguments arguments;
  const auto check = [&arguments](const switchml::Given&) {
    if (!arguments.trace || arguments.one) return switchml::Status();
    return switchml::Status(switchml::Code::kInvalidArgument, "--trace goes with --seed N only");
  };
  const auto left = switchml::answer_command_line(argc, argv, kUsage, table(&arguments), check);
  if (left) return *left;
  return arguments.one ? run_one(*arguments.one, arguments.trace) : run(arguments);
}
