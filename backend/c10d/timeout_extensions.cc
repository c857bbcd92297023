#include "c10d/timeout_extensions.h"

#include <algorithm>

namespace switchml {

void TimeoutExtensions::add(Duration extra) {
  const std::lock_guard<std::mutex> lock(mutex_);
  extensions_.push_back({extra, 0});
  total_ += extra.count();
}

uint64_t TimeoutExtensions::take_up() {
  if (total() == Duration{}) return 0;
  const std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t number = last_number_ + 1;
  for (Extension& extension : extensions_) {
    if (extension.first_call != 0) continue;
    extension.first_call = number;
    last_number_ = number;
  }
  return last_number_ == number ? number : 0;
}

void TimeoutExtensions::release(uint64_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto over = [&](const Extension& extension) { return extension.first_call == number; };
  for (const Extension& extension : extensions_) {
    if (over(extension)) total_ -= extension.extra.count();
  }
  extensions_.erase(std::remove_if(extensions_.begin(), extensions_.end(), over), extensions_.end());
}

}  // namespace switchml
