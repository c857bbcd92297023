#include "session/shared_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/log.h"
#include "base/random.h"
#include "shm/arena.h"
#include "shm/mail.h"

namespace switchml {

bool wants_memory(const Config& config, bool one_host) {
  if (config.transport == "shm") return true;
  return config.transport == "auto" && one_host && config.switch_address.empty() && config.controller.empty() &&
         config.faults.empty() && config.precision != Precision::kInteger;
}

Status check_hosts(const Config& config, const std::vector<std::string>& hosts) {
  if (config.transport != "shm") return {};
  const auto other =
      std::find_if(hosts.begin(), hosts.end(), [&](const std::string& host) { return host != hosts[0]; });
  if (other == hosts.end()) return {};
  return {Code::kInvalidArgument,
          "SWITCHML_TRANSPORT=\"shm\" is for ranks on one host, but rank " + std::to_string(other - hosts.begin()) +
              " is on another host or in another network namespace than rank 0: use auto, udp, tcp or rdma"};
}

size_t arena_bytes(const Config& config, int ranks) {
  if (!shm::can_populate()) return 0;  // it would all be taken at once
  if (config.arena_mib) return *config.arena_mib << 20;
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY) return 0;
  const auto pages = static_cast<size_t>(std::max(0L, ::sysconf(_SC_PHYS_PAGES)));
  return pages * shm::page_bytes() / 2 / static_cast<size_t>(ranks);
}

Result<MemoryOffer> offer_memory(const shm::BoardShape& shape, size_t arena_bytes, Blob* blob) {
  auto segment = shm::Segment::create(shm::segment_bytes(shape, arena_bytes));
  if (!segment.ok() && arena_bytes > 0) {
    SWITCHML_LOG(kInfo) << "no tensors for all ranks of this host: " << segment.status().message();
    return offer_memory(shape, 0, blob);
  }
  if (!segment.ok()) return segment.status();
  if (Status status = shm::Board::populate_headers(shape, segment->data()); !status.ok()) return status;
  if (Status status = shm::populate_mail(shape, segment->data()); !status.ok()) return status;
  char name[64];
  std::snprintf(name, sizeof name, "switchml-%016llx", static_cast<unsigned long long>(random_bits()));
  const uint64_t key = random_bits();
  auto segment_server = shm::SegmentServer::start(segment.value(), name, key);
  if (!segment_server.ok()) return segment_server.status();
  blob->set("memory", name);
  blob->set("memory_key", key);
  blob->set("memory_bytes", segment->size());
  blob->set("arena_bytes", arena_bytes);
  return MemoryOffer{std::make_shared<shm::Segment>(std::move(segment.value())), std::move(segment_server.value())};
}

Result<std::shared_ptr<shm::Segment>> fetch_memory(const Blob& blob, const shm::BoardShape& shape, Time deadline) {
  const std::string name = blob.text("memory");
  if (name.empty()) return std::shared_ptr<shm::Segment>();
  uint64_t key = 0;
  uint64_t offered = 0;
  uint64_t arena = 0;
  if (!blob.number("memory_key", UINT64_MAX, &key) || !blob.number("memory_bytes", UINT64_MAX, &offered) ||
      !blob.number("arena_bytes", shm::Segment::kMaxBytes, &arena) || offered != shm::segment_bytes(shape, arena)) {
    return Status(Code::kMismatch,
                  "memory is offered of another size than this rank expects: install the same "
                  "switchml on all ranks");
  }
  auto segment = shm::fetch_segment(name, key, offered, deadline);
  if (!segment.ok()) return segment.status();
  segment->forget_fd();
  return std::make_shared<shm::Segment>(std::move(segment.value()));
}

}  // namespace switchml
