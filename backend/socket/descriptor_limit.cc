#include "socket/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdint>

namespace switchml {

size_t allow_descriptors(size_t wanted) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  rlimit raised = files;
  raised.rlim_cur = std::min<rlim_t>(wanted, files.rlim_max);
  if (raised.rlim_cur > files.rlim_cur && ::setrlimit(RLIMIT_NOFILE, &raised) == 0) files = raised;
  return files.rlim_cur;
}

}  // namespace switchml
