// Starting threads, and the error where the system gives none.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "base/status.h"

namespace switchml {

/// The message names the thread's purpose and the limits that may have been reached.
class NoThread : public StatusError {
 public:
  explicit NoThread(const std::string& purpose);
};

/// Runs `body` on a new thread. Throws NoThread; `purpose`: "the switch in rank 0".
std::thread make_thread(const std::string& purpose, std::function<void()> body);

}  // namespace switchml
