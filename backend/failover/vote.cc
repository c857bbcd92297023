#include "failover/vote.h"

namespace switchml {

namespace {

Result<std::vector<Blob>> hear_all(const StoreChannel& channel, const GroupInfo& group, const std::string& topic) {
  std::vector<Blob> all;
  for (int rank = 0; rank < group.size; ++rank) {
    auto said = channel.hear_blob(topic, rank);
    if (!said.ok()) return said.status();
    all.push_back(std::move(said.value()));
  }
  return all;
}

}  // namespace

Result<Blob> vote(StoreChannel& channel, const GroupInfo& group, const std::string& topic, const Result<Blob>& mine,
                  const std::function<Blob(const std::vector<Blob>& said)>& conclude) {
  const Status told = channel.say_blob(topic + "/said", mine);
  if (mine.ok() && !told.ok()) return told;
  if (group.rank == 0) {
    const auto all = hear_all(channel, group, topic + "/said");
    const Blob verdict = all.ok() ? conclude(all.value()) : Blob::failure(all.status());
    if (Status status = channel.say(topic + "/verdict", verdict.encode()); !status.ok()) return status;
  }
  if (!mine.ok()) return mine;
  return channel.hear_blob(topic + "/verdict", 0);
}

}  // namespace switchml
