#include "tally.h"

#include <cstdio>

namespace switchml::sim {

void Tally::add(const Record& record) {
  ++seeds_;
  for (size_t i = 0; i < kFaults; ++i) {
    times_[i] += record.coverage()[i];
    in_seeds_[i] += record.coverage()[i] > 0 ? 1 : 0;
  }
}

std::string Tally::missing() const {
  std::string out;
  for (size_t i = 0; i < kFaults; ++i) {
    if (times_[i] == 0) out += (out.empty() ? "" : "; ") + std::string(to_string(static_cast<Fault>(i)));
  }
  return out;
}

std::string Tally::table(double wall_seconds) const {
  char line[160];
  std::string out = "       times    in seeds  what\n";
  for (size_t i = 0; i < kFaults; ++i) {
    std::snprintf(line, sizeof line, "%12llu %11llu  %s\n", static_cast<unsigned long long>(times_[i]),
                  static_cast<unsigned long long>(in_seeds_[i]), to_string(static_cast<Fault>(i)));
    out += line;
  }
  std::snprintf(line, sizeof line, "%llu seeds in %.1f s: %.0f seeds per minute\n",
                static_cast<unsigned long long>(seeds_), wall_seconds, static_cast<double>(seeds_) * 60 / wall_seconds);
  return out + line;
}

std::string failure_report(uint64_t seed, const Record& record) {
  std::string out = "the last events:\n";
  for (const std::string& event : record.last_events()) out += "  " + event + "\n";
  return out + "FAILED: seed " + std::to_string(seed) + ", commit " + commit() + ", rule \"" +
         to_string(record.first()) + "\": " + record.violation() + "\nagain: switchml_sim --seed " +
         std::to_string(seed) + " --trace\n";
}

}  // namespace switchml::sim
