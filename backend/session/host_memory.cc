#include "session/host_memory.h"

#include <algorithm>
#include <utility>

namespace switchml {

namespace {

constexpr Duration kLeastFetchTime = seconds(2);

}  // namespace

Time HostMemory::fetch_end() const {
  return std::min(deadline_, monotonic_now() + std::max(fetch_time_, kLeastFetchTime));
}

Status HostMemory::offer(size_t arena_bytes, Blob* blob) {
  auto offer = offer_memory(shm::shape_for(group_.size), arena_bytes, blob);
  if (!offer.ok()) return offer.status();
  offer_ = std::move(offer.value());
  return {};
}

Status HostMemory::fetch(const Blob& offered) {
  auto memory = group_.rank == 0 ? Result<std::shared_ptr<shm::Segment>>(offer_.segment)
                                 : fetch_memory(offered, shm::shape_for(group_.size), fetch_end());
  Blob mine;
  if (memory.ok()) {
    memory_ = std::move(memory.value());
  } else {
    mine.set("why", memory.status().message());
  }
  return exchange_.say("memory", mine);
}

Result<std::string> HostMemory::missing(Time until) {
  const auto said = exchange_.hear_all("memory", until);
  offer_.segment_server.reset();
  if (!said.ok()) return said.status();
  return first_without(said.value());
}

void HostMemory::share(const HostLayout& hosts) {
  const Status shared = share_with(hosts.leader_of(group_.rank), hosts.shape_for(group_.rank));
  if (!shared.ok()) why_none_ = shared.message();
}

Status HostMemory::share_with(int leader, const shm::BoardShape& shape) {
  if (group_.rank == leader) {
    Blob blob;
    auto offer = offer_memory(shape, 0, &blob);
    if (!offer.ok()) blob.set("why", offer.status().message());
    const Status said = leader == 0 ? exchange_.tell_all("host", blob) : exchange_.say("host", blob);
    if (!said.ok()) return said;
    if (!offer.ok()) return offer.status();
    offer_ = std::move(offer.value());
    memory_ = offer_.segment;
    return {};
  }
  const auto blob = exchange_.hear("host", leader, "share memory of its host", deadline_);
  if (!blob.ok()) return blob.status();
  auto memory = fetch_memory(blob.value(), shape, fetch_end());
  if (!memory.ok()) return memory.status();
  if (memory.value() == nullptr) {
    return {Code::kUnavailable, "rank " + std::to_string(leader) + " has none: " + blob->text("why")};
  }
  memory_ = std::move(memory.value());
  return {};
}

std::shared_ptr<shm::Segment> HostMemory::take() {
  if (offer_.segment != nullptr) offer_.segment->forget_fd();
  offer_ = {};
  return std::exchange(memory_, nullptr);
}

std::string HostMemory::first_without(const std::vector<Blob>& said) {
  for (size_t rank = 0; rank < said.size(); ++rank) {
    const std::string why = said[rank].text("why");
    if (!why.empty()) return "rank " + std::to_string(rank) + ": " + why;
  }
  return "";
}

}  // namespace switchml
