#include "base/interruption.h"

#include <atomic>

namespace switchml {
namespace {

std::atomic<InterruptionCheck> current{nullptr};

}  // namespace

void set_interruption_check(InterruptionCheck check) { current.store(check); }

void check_interruption() {
  if (const InterruptionCheck check = current.load()) check();
}

}  // namespace switchml
