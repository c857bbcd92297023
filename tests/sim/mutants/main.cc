// switchml_sim_mutants: switches one planted bug after the other on, and sees which seeds notice and how.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/command_line.h"
#include "mutant.h"
#include "simulation.h"
#include "tally.h"

namespace switchml::sim {
namespace {

struct Mutant {
  const char* name;
  const char* what;
  bool witness;      // nothing but the witness notices
  const char* rule;  // that must notice; empty: any
  bool hostile;      // shows only where frames are damaged or ranks call differently
};
constexpr Mutant kMutants[] = {
#include "mutants.inc"
};
constexpr int kCount = static_cast<int>(sizeof kMutants / sizeof kMutants[0]);
static_assert(kCount <= static_cast<int>(kMostMutants));

constexpr unsigned kCrash = 1U << kRules;  // the process died, or ran for too long
constexpr unsigned kSecondsPerSeed = 60;
constexpr int kHarmlessSeeds = 100;  // in which no rule of slots may notice what only the witness can

int number_of(const std::string& name) {
  for (int i = 0; i < kCount; ++i) {
    if (name == kMutants[i].name) return i;
  }
  return -1;
}

struct Seen {
  unsigned rules = 0;  // bits, and kCrash
  unsigned first = kRules;
};

/// One seed in a process of its own: a planted bug may end it.
Seen simulate(const Mutants& mutants, uint64_t seed, bool plain, unsigned tolerated) {
  int ends[2];
  if (pipe(ends) != 0) return {kCrash, kRules};
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    alarm(kSecondsPerSeed);
    (void)!freopen("/dev/null", "w", stderr);
    active_mutants = mutants;
    Simulation simulation(seed, {false, plain, tolerated});
    simulation.run();
    const Seen seen{simulation.record().seen(), static_cast<unsigned>(simulation.record().first())};
    const bool told = write(ends[1], &seen, sizeof seen) == sizeof seen;
    _exit(told ? 0 : 1);
  }
  close(ends[1]);
  Seen seen;
  const bool whole = child > 0 && read(ends[0], &seen, sizeof seen) == sizeof seen;
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  return whole ? seen : Seen{kCrash, kRules};
}

/// Seeds 1 to n until `stop` says so; returns how many seeds broke each rule (the last place: crashes).
using Counts = std::array<int, kRules + 1>;
Counts count(const Mutants& mutants, int seeds, bool plain, unsigned tolerated,
             const std::function<bool(int seed, const Seen&)>& stop) {
  Counts counts{};
  for (int seed = 1; seed <= seeds; ++seed) {
    const Seen seen = simulate(mutants, static_cast<uint64_t>(seed), plain, tolerated);
    for (unsigned i = 0; i <= kRules; ++i) counts[i] += seen.rules >> i & 1U;
    if (stop(seed, seen)) break;
  }
  return counts;
}

int of(const Counts& counts, Rule rule) { return counts[static_cast<unsigned>(rule)]; }

// What a user would notice: everything else is tolerated.
constexpr unsigned kWatchers = 1U << static_cast<unsigned>(Rule::kSlot) | 1U << static_cast<unsigned>(Rule::kStream) |
                               1U << static_cast<unsigned>(Rule::kWitness) | 1U << static_cast<unsigned>(Rule::kError) |
                               1U << static_cast<unsigned>(Rule::kHang) | 1U << static_cast<unsigned>(Rule::kMemory);

Mutants mask(int number) { return Mutants().set(static_cast<size_t>(number)); }
Mutants without_witness(int number) { return mask(number) | mask(number_of("witness_skipped")); }

/// The first seed that notices by the rule that must, and that rule; empty: none.
std::string caught_by(int number, int seeds) {
  const std::string wanted = kMutants[number].rule;
  std::string caught;
  count(mask(number), seeds, false, 0, [&](int seed, const Seen& seen) {
    if (seen.rules == 0) return false;
    const std::string rule = (seen.rules & kCrash) != 0 ? "crash" : to_string(static_cast<Rule>(seen.first));
    if (!wanted.empty() && rule != wanted) return false;
    caught = "seed " + std::to_string(seed) + ", " + rule;
    return true;
  });
  return caught;
}

/// Whether nothing but the witness notices, and results are wrong without it.
bool by_witness_alone(int number, int seeds) {
  const auto never = [](int, const Seen&) { return false; };
  const Counts with = count(mask(number), kHarmlessSeeds, true, kWatchers, never);
  const auto wrong = [](int, const Seen& seen) { return (seen.rules & bit(Rule::kResult)) != 0; };
  const Counts without = count(without_witness(number), seeds, true, kWatchers, wrong);
  const bool alone = of(with, Rule::kSlot) + of(with, Rule::kStream) + of(with, Rule::kResult) + with[kRules] == 0;
  return alone && of(with, Rule::kWitness) > 0 && of(without, Rule::kResult) > 0;
}

bool check(int number, int seeds) {
  const Mutant& mutant = kMutants[number];
  const std::string caught = caught_by(number, seeds);
  const bool alone = mutant.witness && by_witness_alone(number, seeds);
  std::string text =
      caught.empty() ? "NOT CAUGHT" + (*mutant.rule == 0 ? "" : " by " + std::string(mutant.rule)) : caught;
  if (alone) text += "; by the witness alone";
  if (mutant.witness && !alone) text += "; BUT NOT by the witness alone: see --table";
  std::printf("%-34s %s\n", mutant.name, text.c_str());
  return !caught.empty() && alone == mutant.witness;
}

/// A row of benchmarks/results/*-planted-bugs.md.
void row(int number, int seeds) {
  const auto never = [](int, const Seen&) { return false; };
  // Damage and mismatches would need the witness without any bug: they are for bugs that need them.
  const bool hostile = kMutants[number].hostile;
  const Counts with = count(mask(number), seeds, !hostile, kWatchers, never);
  const Counts without = hostile ? with : count(without_witness(number), seeds, true, kWatchers, never);
  std::printf("| `%s` | %s | %d | %d | %d | %d | %d | %d | %d | %d |\n", kMutants[number].name, kMutants[number].what,
              of(with, Rule::kSlot), of(with, Rule::kStream), of(with, Rule::kWitness), of(with, Rule::kMemory),
              of(with, Rule::kError) + of(with, Rule::kHang) + of(with, Rule::kTwice) + of(with, Rule::kEndless),
              with[kRules], of(with, Rule::kResult), of(without, Rule::kResult));
  std::fflush(stdout);
}

/// One seed in this process, with all that is known of it.
int replay(int number, uint64_t seed) {
  if (number >= 0) active_mutants = mask(number);
  Simulation simulation(seed, {});
  const bool passed = simulation.run();
  std::fputs(passed ? "nothing was noticed\n" : failure_report(seed, simulation.record()).c_str(), stdout);
  return passed ? 1 : 0;
}

struct Arguments {
  std::optional<uint64_t> seed;
  int seeds = 1000;
  bool table = false;
  int only = -1;
};

std::vector<Option> options(Arguments* out) {
  const auto only = [out](const std::string& name) {
    const int found = number_of(name);
    if (found >= 0) out->only = found;
    return found >= 0;
  };
  return {{"seeds", value::whole(1, 1000000, &out->seeds), "so many seeds for each at most"},
          {"only", {"NAME", "one of mutants.toml", only, nullptr}, "this one alone"},
          {"seed", value::whole(0, 999999999999999999L, &out->seed), "with --only: this seed, and what broke"},
          {"table", value::flag(&out->table), "how many of the seeds notice, and by what"}};
}

int run(const Arguments& arguments) {
  if (arguments.seed) return replay(arguments.only, *arguments.seed);
  int missed = 0;
  for (int number = 0; number < kCount; ++number) {
    if (arguments.only >= 0 && number != arguments.only) continue;
    if (arguments.table) {
      row(number, arguments.seeds);
    } else {
      missed += check(number, arguments.seeds) ? 0 : 1;
    }
  }
  if (missed == 0 && !arguments.table) std::printf("each planted bug is caught, by commit %s\n", commit().c_str());
  if (missed > 0) std::printf("FAILED: %d of %d planted bugs are not caught as they should be\n", missed, kCount);
  return missed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace switchml::sim

int main(int argc, char** argv) {
  using namespace switchml::sim;
  Arguments arguments;
  const auto left = switchml::answer_command_line(
      argc, argv, "switchml_sim_mutants: planted bugs, and which seeds notice them (tests/sim/README.md)\n",
      options(&arguments));
  return left ? *left : run(arguments);
}
