// What many simulations add up to: how often each kind of fault occurred, and how fast they ran.
#pragma once

#include <cstdint>
#include <string>

#include "record.h"

namespace switchml::sim {

class Tally {
 public:
  void add(const Record& record);
  uint64_t seeds() const { return seeds_; }
  /// Fault kinds that no seed had.
  std::string missing() const;
  /// A table for people.
  std::string table(double wall_seconds) const;

 private:
  uint64_t seeds_ = 0;
  Coverage times_{};
  Coverage in_seeds_{};
};

/// The commit that this program was built from, for reports; with "+changes" if there were uncommitted ones, "unknown"
/// where git or its folder was absent.
std::string commit();
/// Everything that is worth knowing about a broken rule, with how to repeat it.
std::string failure_report(uint64_t seed, const Record& record);

}  // namespace switchml::sim
