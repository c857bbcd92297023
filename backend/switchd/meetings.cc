#include "switchd/meetings.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "socket/address.h"
#include "wire/control.h"

namespace switchml {

namespace {
constexpr size_t kMostAsking = 1024;
}  // namespace

void Meetings::meet(const wire::Join& asked, const wire::Introduction& its, uint32_t request_id, const Endpoint& from) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (waiting_.size() >= kMostAsking) return;
    waiting_.push_back({asked, its, request_id, from});
    mail_.store(true, std::memory_order_release);
  }
  card_.wake();
}

void Meetings::answer(const Join& join, const Send& send) {
  if (!mail_.load(std::memory_order_acquire)) return;
  std::vector<Asked> waiting;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting.swap(waiting_);
    mail_.store(false, std::memory_order_release);
  }
  for (const Asked& asked : waiting) send(reply_to(asked, join), asked.from);
}

void Meetings::forget_gone(const Serves& serves) {
  const auto is_gone = [&](const auto& each) {
    if (serves(each.second.job, each.second.epoch)) return false;
    pairs_.disconnect(each.first);
    return true;
  };
  met_.erase(std::remove_if(met_.begin(), met_.end(), is_gone), met_.end());
}

Result<wire::Introduction> Meetings::acquaint(const Asked& asked, const Endpoint& member) {
  const auto known = std::find_if(met_.begin(), met_.end(), [&](const auto& each) { return each.first == member; });
  const MetMember its{asked.join.job, asked.join.epoch};
  if (known != met_.end()) {
    known->second = its;
  } else {
    met_.emplace_back(member, its);
  }
  if (Status met = pairs_.connect(member, asked.introduction); !met.ok()) return met;
  return pairs_.queue_pair_for(member);
}

// [MEET-1, MEET-2]
std::vector<uint8_t> Meetings::reply_to(const Asked& asked, const Join& join) {
  const Endpoint member = with_carrier(asked.from, Carrier::kRdma);  // [RDMA-2]
  softswitch::JoinOutcome joined = join(asked.join, member);
  wire::Introduction own;
  if (joined.status == wire::ReplyStatus::kOk) {
    const auto introduced = acquaint(asked, member);
    if (introduced.ok()) {
      own = introduced.value();
    } else {
      joined.status = wire::ReplyStatus::kNoCard;
      SWITCHML_LOG(kWarning) << "a worker at " << to_string(member)
                             << " gets no queue pair: " << introduced.status().message();
    }
  }
  std::vector<uint8_t> reply(wire::kMaxControlBytes);
  wire::Control control;
  control.type = static_cast<uint8_t>(wire::Request::kMeet);
  control.request_id = asked.request_id;
  if (wire::has_body(joined.status)) {
    wire::write_join_reply(joined.reply, reply.data() + wire::kControlBytes);
    wire::write_introduction(own, reply.data() + wire::kControlBytes + wire::kJoinReplyBytes);
  }
  reply.resize(wire::finish_reply(control, joined.status, reply.data()));
  return reply;
}

}  // namespace switchml
