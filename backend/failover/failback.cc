#include "failover/failback.h"

#include <string>

#include "base/random.h"
#include "client/control_client.h"
#include "failover/vote.h"

namespace switchml {

namespace {

constexpr Duration kJoinTime = seconds(2);
constexpr Duration kLeaveTime = milliseconds(200);

std::string described(const SessionParameters& session) {
  return std::to_string(session.slots) + " slots of " + std::to_string(session.payload_bytes) + " bytes" +
         (session.whole_chunks ? ", whole payloads only" : "") + (session.exact ? "" : " of integers");
}

}  // namespace

Failback::Failback(const Config& config, const GroupInfo& group, const SessionParameters& lost, StoreChannel& channel,
                   const ControllerEntry& controller, SwitchServer* own, ShareNumber share)
    : config_(config),
      group_(group),
      lost_(lost),
      channel_(channel),
      controller_(controller),
      own_(own),
      share_(share) {}

std::string Failback::vote_topic(int attempt) { return "back/" + std::to_string(attempt); }
std::string Failback::offer_topic(int attempt) { return vote_topic(attempt) + "/offer"; }

Status Failback::offer(int attempt, Time deadline) {
  auto blob = ask(deadline);
  if (!blob.ok()) return blob.status();
  SessionParameters session = lost_;
  Status status = read(blob.value(), &session);
  if (status.ok()) status = channel_.say(offer_topic(attempt), blob->encode());
  if (!status.ok()) leave({session}, monotonic_now() + kLeaveTime);
  return status;
}

Result<Blob> Failback::ask(Time deadline) const {
  // The switches may be others now.
  auto blob = lost_.controlled ? controller_.places(deadline) : Result<Blob>(Blob());
  if (!blob.ok()) return blob.status();
  auto granted = open(open_like(lost_, random_bits()), deadline);
  if (!granted.ok()) return granted.status();
  write_grant(granted.value(), &blob.value());
  return blob;
}

Result<wire::OpenReply> Failback::open(const wire::Open& asked, Time deadline) const {
  if (lost_.controlled) {
    return controller_.client->open(asked, controller_.ranks, share_.number, group_.name, lost_.membership(), deadline);
  }
  if (own_ != nullptr) own_->invite(asked.client_key);
  const Endpoint to = for_requests(lost_.switch_endpoint);
  auto link = connect_to_switch(to, lost_.seal);
  if (!link.ok()) return link.status();
  return ControlClient(*link.value(), to, lost_.switch_name).open(asked, deadline);
}

// The streams go on in the middle: what lies in a slot must be what lay there.
Status Failback::read(const Blob& offer, SessionParameters* session) const {
  if (lost_.controlled) {
    const auto shares = shares_of(offer);
    if (!shares.ok()) return shares.status();
    if (shares.value() != share_.of) {
      return {Code::kMismatch, "the plan has " + std::to_string(shares.value()) + " shares now, and the group has " +
                                   std::to_string(share_.of)};
    }
  }
  Status status = lost_.controlled ? read_place(offer, share_.number, session) : Status();
  if (status.ok()) status = read_grant(offer, session);
  if (!status.ok()) return status;
  if (session->slots == lost_.slots && session->payload_bytes == lost_.payload_bytes &&  // [MOVE-2]
      session->whole_chunks == lost_.whole_chunks && session->exact == lost_.exact) {
    return {};
  }
  return {Code::kMismatch, "switch " + session->switch_name + " grants " + described(*session) +
                               ", and the group needs " + described(lost_)};
}

Result<Failback::Found> Failback::take(int attempt) {
  const auto offer = channel_.hear_blob(offer_topic(attempt), 0);
  if (!offer.ok()) return offer.status();
  Found found;
  found.session = lost_;
  Status mine = read(offer.value(), &found.session);
  if (mine.ok()) mine = join(&found);
  const auto joined = mine.ok() ? Result<Blob>(Blob()) : Result<Blob>(mine);
  const auto all = vote(channel_, group_, vote_topic(attempt), joined, [](const std::vector<Blob>&) { return Blob(); });
  if (all.ok()) return found;
  leave({found.session}, monotonic_now() + kLeaveTime);
  return all.status();
}

Status Failback::join(Found* found) const {
  auto links = connect_shards(config_, group_.rank, {found->session.switch_endpoint}, lost_.seal);
  if (!links.ok()) return links.status();
  found->transports = std::move(links.value());
  const Time end = monotonic_now() + kJoinTime;
  for (size_t shard = 0; shard < found->transports.size(); ++shard) {
    const auto number = static_cast<int>(shard);
    if (Status status = join_shard(*found->transports[shard], found->session, number, end); !status.ok()) return status;
  }
  return {};
}

}  // namespace switchml
