#include "session/session.h"

#include <utility>

#include "base/limits.h"
#include "store/store_exchange.h"

namespace switchml {

namespace {

// A host that is silent may be stopped by a debugger: as with a controller's switch, what ends the group is a rank that
// is gone, as its watch sees, or a call's deadline.
constexpr Duration kHostPatience = seconds(24 * 3600);

Status check_group(const GroupInfo& group) {
  if (group.size < 1 || group.size > kMaxRanks || group.rank < 0 || group.rank >= group.size) {
    return {Code::kInvalidArgument, "rank " + std::to_string(group.rank) + " of a group of " +
                                        std::to_string(group.size) + ": a group has 1 to " + std::to_string(kMaxRanks) +
                                        " ranks, counted from 0" +
                                        (group.size > kMaxRanks ? "; make smaller ones" : "")};
  }
  return {};
}

/// A store in which keys begin with "exact/".
class ExactStore : public Rendezvous {
 public:
  explicit ExactStore(Rendezvous& store) : store_(store) {}
  Status set(const std::string& key, const std::string& value) override { return store_.set(prefixed(key), value); }
  Result<std::string> get(const std::string& key, Time deadline) override {
    return store_.get(prefixed(key), deadline);
  }
  Result<bool> has_all(const std::vector<std::string>& keys) override { return store_.has_all(prefixed(keys)); }
  Result<std::vector<std::string>> get_all(const std::vector<std::string>& keys) override {
    return store_.get_all(prefixed(keys));
  }

 private:
  static std::string prefixed(const std::string& key) { return "exact/" + key; }
  static std::vector<std::string> prefixed(std::vector<std::string> keys) {
    for (std::string& key : keys) key = prefixed(key);
    return keys;
  }
  Rendezvous& store_;
};

// As if neither a switch nor integers were asked for.
Config config_of_hosts(const Config& config) {
  Config hosts = config;
  hosts.switch_address.clear();
  hosts.controller.clear();
  hosts.switch_key_file.clear();
  hosts.precision = Precision::kAuto;
  hosts.fallback = false;
  hosts.payload_bytes = 0;
  hosts.slots = 0;
  hosts.shards = 1;
  return hosts;
}

}  // namespace

Result<std::unique_ptr<Session>> Session::open(const Config& config, const GroupInfo& group, Rendezvous& store,
                                               Time deadline, std::shared_ptr<ControllerClient> controller,
                                               std::function<Status()> ended) {
  if (Status status = check_group(group); !status.ok()) {
    give_up_opening(store, group, status);
    return status;
  }
  std::unique_ptr<Session> session(new Session(group, store));
  Status status = session->attach(config, deadline, std::move(controller), std::move(ended));
  if (status.ok() && group.size > 1 && !session->first_->adds_exactly())
    status = session->attach_hosts(config, deadline);
  return status.ok() ? Result<std::unique_ptr<Session>>(std::move(session)) : status;
}

Session::Session(const GroupInfo& group, Rendezvous& store)
    : fate_(std::make_shared<SharedFate>()),
      membership_(group, store),
      exact_store_(std::make_unique<ExactStore>(store)) {}

// What watches over the ranks ends last.
Session::~Session() {
  fate_->forget();
  exact_.reset();
}

Status Session::attach(const Config& config, Time deadline, std::shared_ptr<ControllerClient> controller,
                       std::function<Status()> ended) {
  AttachmentOptions options;
  options.controller = std::move(controller);
  options.ended = std::move(ended);
  options.switch_patience = config.failure_timeout;
  options.on_failure = [fate = fate_](const Status& status) { fate->fail(status); };
  auto attachment = Attachment::open(config, membership_, membership_.store(), deadline, std::move(options));
  if (!attachment.ok()) return attachment.status();
  first_ = std::move(attachment.value());
  abilities_ = first_->abilities();
  return {};
}

Status Session::attach_hosts(const Config& config, Time deadline) {
  StoreExchange first(membership_.store(),
                      membership_.group());  // Ranks with a first attachment that fails say so there.
  AttachmentOptions options;
  options.watched = true;
  options.switch_patience = kHostPatience;
  options.ended = [this, &first] {
    const Status status = first_->engine().status();
    return status.ok() ? first.ended() : status;
  };
  options.on_failure = [fate = fate_](const Status& status) { fate->fail(status); };
  auto attachment = Attachment::open(config_of_hosts(config), membership_, *exact_store_, deadline, std::move(options));
  if (attachment.ok()) {
    exact_ = std::move(attachment.value());
    const bool mixed = config.precision != Precision::kInteger;
    pair_ = std::make_unique<PairedEngine>(first_->engine(), exact_->engine(), mixed ? kFewElements : 0);
    fate_->bind(first_->engine(), exact_->engine());
    abilities_.exchanges = exact_->abilities().exchanges;
    abilities_.encrypts =
        abilities_.encrypts && (exact_->abilities().transport == "shm" || exact_->abilities().encrypts);
    if (mixed) abilities_.precision = "mixed";
    return {};
  }
  if (const Status lost = first_->engine().status(); !lost.ok()) return lost;
  // Ranks that do not come, or that a user ends, have nothing to do with what hosts can.
  const Status& status = attachment.status();
  if (status.code() == Code::kTimeout || status.code() == Code::kAborted) return status;
  return {status.code(), "the ranks' hosts cannot do what an integer switch cannot: " + status.message()};
}

void Session::abort(const std::string& reason) {
  engine().abort(reason);
  if (const auto held = messages()) held->fail(Status(Code::kAborted, reason));
}

void Session::give_up(const std::string& why) {
  const std::string text =
      "rank " + std::to_string(membership_.group().rank) + " (" + this_process() + ") gave up: " + why;
  membership_.give_up(text);
  first_->give_up(Status(Code::kUnavailable, text));
  membership_.lose(Status(Code::kUnavailable, text));
}

}  // namespace switchml
