#include "base/thread.h"

#include <system_error>
#include <utility>

namespace switchml {

NoThread::NoThread(const std::string& purpose)
    : StatusError({Code::kInternal,
                   "the system gives no thread for " + purpose +
                       "; allowed by ulimit -u and -v, and by the control group's pids.max: at least one more"}) {}

std::thread make_thread(const std::string& purpose, std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error&) {
    throw NoThread(purpose);
  }
}

}  // namespace switchml
