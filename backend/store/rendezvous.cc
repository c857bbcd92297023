#include "store/rendezvous.h"

#include <algorithm>

namespace switchml {

Result<std::string> Rendezvous::get_while(const std::string& key, Time deadline, const std::function<Status()>& ended) {
  constexpr Duration kSlice = milliseconds(50);
  for (;;) {
    const Time now = monotonic_now();
    auto value = get(key, std::min(deadline, now + kSlice));
    if (value.ok() || value.status().code() != Code::kTimeout || now + kSlice >= deadline) return value;
    if (Status status = ended(); !status.ok()) return status;
  }
}

}  // namespace switchml
