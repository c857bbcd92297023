#include "failover/standby.h"

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "client/control_client.h"
#include "socket/address.h"
#include "socket/sockaddr.h"
#include "transport/spread_link.h"

namespace switchml {

namespace {

constexpr Duration kOpenTime = seconds(2);
constexpr Duration kJoinTime = seconds(5);
constexpr Duration kLeaveTime = milliseconds(200);

}  // namespace

Standby::Standby(const Config& config, const GroupInfo& group, std::vector<int> leaders, const SessionParameters& lost,
                 StoreChannel& channel, int number)
    : config_(config),
      group_(group),
      leaders_(std::move(leaders)),
      session_(lost),
      channel_(channel),
      number_(number) {}

Standby::~Standby() {
  transports_.clear();
  if (joined_) {
    std::vector<SessionParameters> all;
    for (const Endpoint& place : switches_) {
      all.push_back(session_);
      all.back().switch_endpoint = place;
    }
    leave(all, monotonic_now() + kLeaveTime);
  }
  if (server_ != nullptr) await_leavers(*server_);
}

Status Standby::start() {
  if (group_.rank == 0) {
    Blob keys;
    keys.set("seed", random_bits() | 1U);  // 0 would be another one on each host
    keys.set("client_key", random_bits());
    if (session_.seals_ranks) keys.set("seal", to_hex(random_seal_key()));
    if (Status status = channel_.say_blob(topic("keys"), keys); !status.ok()) return status;
  }
  Status status = serve();
  if (status.ok()) status = hear_switches();
  if (status.ok()) status = share_session();
  if (status.ok()) status = join();
  return channel_.agree(topic("joined"), group_.size, status);
}

// ---- switches ----

Status Standby::serve() {
  const auto keys = channel_.hear_blob(topic("keys"), 0);
  if (!keys.ok()) return keys.status();
  if (Status status = read_seal(keys.value()); !status.ok()) return status;
  if (std::find(leaders_.begin(), leaders_.end(), group_.rank) == leaders_.end()) return {};
  const auto place = serve_with(keys.value());
  if (!place.ok()) return channel_.say_blob(topic("place"), place.status());
  Blob blob;
  blob.set("address", to_string(place.value()));
  return channel_.say_blob(topic("place"), blob);
}

// The lost switch's key is none of theirs.
Status Standby::read_seal(const Blob& keys) {
  session_.seal.reset();
  if (!session_.seals_ranks) return {};
  const auto seal = parse_seal_key(keys.text("seal"));
  if (!seal.ok()) return {Code::kMismatch, "rank 0 sent no key of links: install the same switchml on all ranks"};
  session_.seal = seal.value();
  return {};
}

// Epochs, keys and cookies follow from the seed: with the same one, and one open, sessions are alike. A socket that
// queues little does not make slots fewer here: the streams go on in those that there are, and losses are repaired.
Result<Endpoint> Standby::serve_with(const Blob& keys) {
  ServerOptions options;
  if (!keys.number("seed", UINT64_MAX, &options.softswitch.seed) ||
      !keys.number("client_key", UINT64_MAX, &client_key_)) {
    return Status(Code::kMismatch, "rank 0 sent no keys: install the same switchml on all ranks");
  }
  if (session_.own_address.size == 0)
    return Status(Code::kUnavailable, "its host has no address that the other hosts reach");
  options.listen = session_.own_address;
  options.softswitch.by_invitation = true;
  options.softswitch.receive_buffer_bytes = SIZE_MAX;
  options.seal = session_.seal;
  auto started = SwitchServer::start(options);
  if (!started.ok()) return started.status();
  server_ = std::move(started.value());
  server_->invite(client_key_);
  return server_->local();
}

Status Standby::hear_switches() {
  for (const int leader : leaders_) {
    const auto place = channel_.hear_blob(topic("place"), leader);
    if (!place.ok()) return place.status();
    const auto address = literal_address(place->text("address"), 0);
    if (!address.ok()) return address.status();
    switches_.push_back(with_carrier(address.value(), carrier()));
  }
  return {};
}

// ---- the session ----

Status Standby::share_session() {
  session_.switch_endpoint = with_carrier({}, carrier());  // the one of the slot
  if (group_.rank == 0) {
    if (Status status = channel_.say_blob(topic("session"), open_all()); !status.ok()) return status;
  }
  const auto granted = channel_.hear_blob(topic("session"), 0);
  if (!granted.ok()) return granted.status();
  const bool whole_chunks = session_.whole_chunks;  // As the frames in flight are.
  const bool exact = session_.exact;
  if (Status status = read_grant(granted.value(), &session_); !status.ok()) return status;
  session_.whole_chunks = whole_chunks;  // [MOVE-2]
  session_.controlled = false;
  if (session_.exact == exact) return {};
  return {Code::kMismatch, "the ranks' own switches add otherwise: install the same switchml on all ranks"};
}

Result<Blob> Standby::open_all() {
  const wire::Open asked = open_like(session_, client_key_);
  Blob first;
  for (const Endpoint& place : switches_) {
    auto link = connect_to_switch(place, session_.seal);
    if (!link.ok()) return link.status();
    auto granted = ControlClient(*link.value(), place, to_string(place)).open(asked, monotonic_now() + kOpenTime);
    if (!granted.ok()) return granted.status();
    Blob blob;
    write_grant(granted.value(), &blob);
    if (&place == &switches_.front()) first = blob;
    if (blob.encode() == first.encode() && granted->slots == asked.slots && granted->payload == asked.payload) continue;
    return Status(Code::kMismatch, "the ranks' own switches grant different sessions");
  }
  return first;
}

Status Standby::join() {
  const Time end = monotonic_now() + kJoinTime;
  joined_ = true;
  for (int shard = 0; shard < session_.shards; ++shard) {
    auto link = connect_shard(config_, group_.rank, shard, switches_, session_.seal);
    if (!link.ok()) return link.status();
    for (const Endpoint& place : switches_) {
      SessionParameters there = session_;
      there.switch_endpoint = place;
      there.switch_name = to_string(place);
      if (Status status = join_shard(*link.value(), there, shard, end); !status.ok()) return status;
    }
    transports_.push_back(spread_link(std::move(link.value()), switches_));  // [MOVE-6]
  }
  return {};
}

}  // namespace switchml
