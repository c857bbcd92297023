// What happened in a simulation: a hash of every event (two runs of a seed must agree), the last events for a failure,
// how often each kind of fault occurred, and which rules were broken.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"

namespace switchml::sim {

// X(identifier, "text"): what the coverage table counts.
#define SWITCHML_SIM_FAULTS(X)                                                  \
  X(lost, "frames lost")                                                        \
  X(duplicated, "frames duplicated")                                            \
  X(reordered, "frames that arrived after later ones")                          \
  X(held_back, "frames held back for 5 ms to 3 s")                              \
  X(several_uses_late, "contributions that came 4 or more uses late")           \
  X(old_session, "frames of an ended session at a switch or worker")            \
  X(damage_caught, "frames damaged, dropped by their checksum")                 \
  X(damage_passed, "frames damaged past their checksum")                        \
  X(exact_damaged, "of these, of exact sessions, whose own checksum tells")     \
  X(cut_off, "frames lost to a cut")                                            \
  X(cuts_healed, "hosts cut off for a while, then back")                        \
  X(cuts_long, "hosts cut off for longer than deadline or lease")               \
  X(links_cut, "links cut between a worker and its switch")                     \
  X(trunks_cut, "links cut between a leaf and the root")                        \
  X(cut_one_way, "of these links, cut in one direction alone")                  \
  X(link_cut_off, "frames lost to a cut link")                                  \
  X(workers_killed, "workers killed alone")                                     \
  X(jobs_restarted, "jobs killed and started again at once")                    \
  X(workers_stopped, "workers stopped and resumed")                             \
  X(switches_killed, "switches killed and started again")                       \
  X(moves, "jobs that moved to another session half-way")                       \
  X(sealed_worlds, "networks of encrypted frames")                              \
  X(channels, "channels, each with keys of its own")                            \
  X(attacks, "encrypted frames changed, repeated, or sent elsewhere")           \
  X(handed_over, "results that a rank took from another as they moved")         \
  X(stranger_frames, "frames from addresses that are not the member's")         \
  X(mismatched_calls, "collectives that ranks called differently")              \
  X(leases_expired, "sessions ended by their lease")                            \
  X(opens_refused, "opens refused for lack of slots or jobs")                   \
  X(numbers_wrapped, "shards whose sequence numbers passed 2^32")               \
  X(witness_failures, "results that failed their witness (damage, mismatches)") \
  X(nonfinite_superblocks, "superblocks with NaN or infinities")                \
  X(gathered, "pauses in which a worker let results gather")                    \
  X(windows_shrank, "times that a congestion window shrank")                    \
  X(streams_chosen, "collectives that chose their stream")                      \
  X(sessions, "sessions opened")                                                \
  X(exact_sessions, "of these, exact ones")                                     \
  X(exact_trees, "of these, over several switches")                             \
  X(exact_refused, "exact sessions asked of who grants none")                   \
  X(partial_sums, "sums of floats of which some terms met before, exactly")     \
  X(narrow_sums, "sums of narrow terms to float32")                             \
  X(zero_blocks, "blocks of zeros that contributions left out")                 \
  X(moved, "broadcasts, gathers and scatters, with a result each")              \
  X(results_unwanted, "results without elements, as somebody wants none")       \
  X(errors, "collectives that ended with an error")                             \
  X(collectives, "collectives that ended with a result, each compared by bits")

enum class Fault {
#define SWITCHML_SIM_ENUM(id, text) id,
  SWITCHML_SIM_FAULTS(SWITCHML_SIM_ENUM)
#undef SWITCHML_SIM_ENUM
      count
};
inline constexpr size_t kFaults = static_cast<size_t>(Fault::count);
const char* to_string(Fault fault);
using Coverage = std::array<uint64_t, kFaults>;

/// The rules that a simulation checks. The mutants' table shows which of them a planted bug breaks.
enum class Rule : unsigned {
  kSlot,     // A switch's slot: bitmap, completeness, order, receivers of answers.
  kStream,   // A worker's slots: order of sequence numbers, identical repeats.
  kResult,   // A result is wrong.
  kWitness,  // A result failed its witness though nothing was damaged and all ranks made the same call.
  kError,    // An error without a cause, or another one than it must be.
  kHang,     // No end within the bound.
  kTwice,    // A second end.
  kEndless,  // The simulation itself makes no progress; never tolerated.
  kMemory,   // Too much memory, or slots that were not released.
  kSeal,     // Encryption: a counter used twice, or a frame taken that was not sent so.
  count
};
inline constexpr unsigned kRules = static_cast<unsigned>(Rule::count);
const char* to_string(Rule rule);
inline unsigned bit(Rule rule) { return 1U << static_cast<unsigned>(rule); }

/// "job0.rank1/2" (its shard 2), "switch0", "stranger".
std::string name_of(int node);

class Record {
 public:
  /// Broken rules in `tolerated` (bits) are noted and the run goes on.
  Record(bool print, unsigned tolerated) : print_(print), tolerated_(tolerated) {}

  void advance(Time now) { now_ = now; }
  Time now() const { return now_; }
  void frame(const char* what, int from, int to, const uint8_t* data, size_t size);
  void note(const std::string& text);
  void count(Fault fault, uint64_t times = 1) { coverage_[static_cast<size_t>(fault)] += times; }

  void broken(Rule rule, const std::string& text);
  bool stopped() const { return stopped_; }

  unsigned seen() const { return seen_; }                      // Bits of broken rules.
  const std::string& violation() const { return violation_; }  // The first broken rule's text.
  Rule first() const { return first_; }
  uint64_t hash() const { return hash_; }
  const Coverage& coverage() const { return coverage_; }
  std::vector<std::string> last_events() const;

 private:
  struct Event {
    Time at{};
    const char* what = nullptr;  // null: a note
    int from = 0;
    int to = 0;
    uint8_t head[24] = {};
    size_t size = 0;
    std::string text;
  };
  static constexpr size_t kKept = 60;
  static std::string describe(const Event& event);
  Event& next();

  bool print_;
  unsigned tolerated_;
  Time now_{};
  uint64_t hash_ = 0;
  uint64_t events_ = 0;
  std::array<Event, kKept> ring_;
  Coverage coverage_{};
  unsigned seen_ = 0;
  Rule first_ = Rule::count;
  std::string violation_;
  bool stopped_ = false;
};

}  // namespace switchml::sim
