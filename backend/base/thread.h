// Threads, and what is said where the system gives none.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

#include "base/status.h"

namespace switchml {

/// Names what the thread was to do and the limits that may have been reached.
class NoThread : public std::runtime_error {
 public:
  explicit NoThread(const std::string& purpose);
  Status status() const { return {Code::kInternal, what()}; }
};

/// Runs `body` on a new thread. Throws NoThread; `purpose`: "the switch in rank 0".
std::thread make_thread(const std::string& purpose, std::function<void()> body);

}  // namespace switchml
