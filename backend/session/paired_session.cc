#include "session/paired_session.h"

#include <string>
#include <utility>

#include "session/group_session.h"
#include "store/store_exchange.h"

namespace switchml {

namespace {

/// Keys of the second session of a group.
class SecondStore : public Rendezvous {
 public:
  explicit SecondStore(Rendezvous& store) : store_(store) {}
  Status set(const std::string& key, const std::string& value) override { return store_.set(prefixed(key), value); }
  Result<std::string> get(const std::string& key, Time deadline) override {
    return store_.get(prefixed(key), deadline);
  }
  Result<std::string> get_while(const std::string& key, Time deadline, const std::function<Status()>& ended) override {
    return store_.get_while(prefixed(key), deadline, ended);
  }

 private:
  static std::string prefixed(const std::string& key) { return "exact/" + key; }
  Rendezvous& store_;
};

/// What concerns the switch, and the ranks, is the first one's.
class PairedSession : public Session {
 public:
  PairedSession(std::unique_ptr<Session> switched, std::shared_ptr<SharedFate> fate, Rendezvous& store)
      : fate_(std::move(fate)), first_store_(store), store_(store), switched_(std::move(switched)) {}

  ~PairedSession() override {
    fate_->forget();
    exact_.reset();
  }

  Status open_exact(const Config& config, const GroupInfo& group, Time deadline) {
    StoreExchange first(first_store_, group);  // where a rank says that the first session has failed on it
    GroupSessionOptions options;
    options.watched = true;
    options.ended = [this, &first] {
      const Status status = switched_->engine().status();
      return status.ok() ? first.ended() : status;
    };
    options.on_failure = [fate = fate_](const Status& status) { fate->fail(status); };
    auto exact = open_group_session(config, group, store_, deadline, std::move(options));
    if (!exact.ok()) return exact.status();
    exact_ = std::move(exact.value());
    engine_ = std::make_unique<PairedEngine>(switched_->engine(), exact_->engine());
    fate_->bind(switched_->engine(), exact_->engine());
    return {};
  }

  Status switched_status() const { return switched_->engine().status(); }

  void await_others() override { switched_->await_others(); }
  Engine& engine() override { return *engine_; }
  std::string precision() const override { return "mixed"; }
  bool can(ReduceOp op, ElementType type) const override { return exact_->can(op, type); }
  bool can_move() const override { return exact_->can_move(); }
  bool can_exchange() const override { return exact_->can_exchange(); }
  std::shared_ptr<shm::Messages> messages() const override { return exact_->messages(); }
  SessionParameters parameters() const override { return switched_->parameters(); }
  std::string switch_names() const override { return switched_->switch_names(); }
  bool without_switch() const override { return switched_->without_switch(); }
  const SwitchServer* embedded() const override { return exact_->embedded(); }
  std::string transport() const override { return switched_->transport(); }
  void give_up(const std::string& why) override { switched_->give_up(why); }
  void when_rank_is_lost(std::function<void(const Status&)> callback) override {
    switched_->when_rank_is_lost(std::move(callback));
  }
  std::map<int, std::string> gone_ranks() const override { return switched_->gone_ranks(); }
  std::string compare_calls(const std::string& mine) override { return switched_->compare_calls(mine); }

 private:
  const std::shared_ptr<SharedFate> fate_;
  Rendezvous& first_store_;
  SecondStore store_;
  std::unique_ptr<Session> switched_;
  std::unique_ptr<Session> exact_;  // leaves first: who watches over the ranks is the other one
  std::unique_ptr<PairedEngine> engine_;
};

// As if no switch were named. A host that is silent may be stopped by a debugger: as with a controller's switch, what
// ends the group is a rank that is gone, as the first session sees, or a call's deadline.
Config exact_config(const Config& config) {
  Config exact = config;
  exact.switch_address.clear();
  exact.controller.clear();
  exact.fallback = false;
  exact.failure_timeout = seconds(24 * 3600);
  exact.payload_bytes = 0;
  exact.slots = 0;
  exact.shards = 1;
  return exact;
}

}  // namespace

bool wants_pair(const Config& config) {
  return config.precision != Precision::kInteger && (!config.switch_address.empty() || !config.controller.empty());
}

Result<std::unique_ptr<Session>> pair_with_hosts(std::unique_ptr<Session> switched, std::shared_ptr<SharedFate> fate,
                                                 const Config& config, const GroupInfo& group, Rendezvous& store,
                                                 Time deadline) {
  auto pair = std::make_unique<PairedSession>(std::move(switched), std::move(fate), store);
  const Status status = pair->open_exact(exact_config(config), group, deadline);
  if (status.ok()) return std::unique_ptr<Session>(std::move(pair));
  if (const Status lost = pair->switched_status(); !lost.ok()) return lost;
  // Ranks that do not come, or that a user ends, have nothing to do with what hosts can.
  if (status.code() == Code::kTimeout || status.code() == Code::kAborted) return status;
  return Status(status.code(), "the ranks' hosts cannot add what the switch cannot: " + status.message() +
                                   "; SWITCHML_PRECISION=integer does without them");
}

}  // namespace switchml
