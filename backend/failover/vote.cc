#include "failover/vote.h"

namespace switchml {

namespace {

Result<Blob> hear_blob(const StoreChannel& channel, const std::string& topic, int rank) {
  auto text = channel.hear(topic, rank);
  if (!text.ok()) return text.status();
  auto blob = Blob::parse(text.value());
  if (blob.ok() && !blob->carried().ok()) return blob->carried();
  return blob;
}

Result<std::vector<Blob>> hear_all(const StoreChannel& channel, const GroupInfo& group, const std::string& topic) {
  std::vector<Blob> all;
  for (int rank = 0; rank < group.size; ++rank) {
    auto said = hear_blob(channel, topic, rank);
    if (!said.ok()) return said.status();
    all.push_back(std::move(said.value()));
  }
  return all;
}

}  // namespace

Result<Blob> vote(StoreChannel& channel, const GroupInfo& group, const std::string& topic, const Result<Blob>& mine,
                  const std::function<Blob(const std::vector<Blob>& said)>& conclude) {
  const Status& why = mine.status();
  const std::string self = "rank " + std::to_string(group.rank) + ": ";
  const Blob told = mine.ok() ? mine.value() : Blob::failure(Status(why.code(), self + why.message()));
  if (Status status = channel.say(topic + "/said", told.encode()); !status.ok()) return status;
  if (group.rank == 0) {
    const auto all = hear_all(channel, group, topic + "/said");
    const Blob verdict = all.ok() ? conclude(all.value()) : Blob::failure(all.status());
    if (Status status = channel.say(topic + "/verdict", verdict.encode()); !status.ok()) return status;
  }
  if (!mine.ok()) return mine;
  return hear_blob(channel, topic + "/verdict", 0);
}

}  // namespace switchml
