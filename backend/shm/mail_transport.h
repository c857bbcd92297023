// Messages between the ranks of one host: their transport is the mail in the memory that they share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "messages/message_transport.h"
#include "shm/mail.h"

namespace switchml::shm {

/// The only one of a rank.
class MailTransport final : public MessageTransport {
 public:
  /// `owner` keeps the memory of the mail; may be null.
  MailTransport(const Mail& mail, int rank, std::shared_ptr<const void> owner = nullptr);

  int rank() const override { return rank_; }
  int ranks() const override { return mail_.ranks(); }

  RankSet take_signals() override { return mail_.take_signals(rank_); }
  Status look(int source) override;
  const MessageRecord* next(int source, const uint8_t** behind) override { return from(source).next(behind); }
  void pop(int source) override;
  void take(int source, uint64_t charge) override { from(source).take(charge); }
  uint64_t taken(int to) const override { return out_[static_cast<size_t>(to)].taken(); }
  size_t most_behind() const override { return out_.front().most_behind(); }
  Result<bool> put(int to, const MessageRecord& record, const void* data, size_t behind) override;
  uint64_t ticket(int to) const override { return mail_.ticket(to); }

  void go(State how, const std::string& reason) override { mail_.go(rank_, how, reason); }
  State state(int rank) const override { return mail_.state(rank); }
  std::string reason(int rank) const override { return mail_.reason(rank); }

  bool has_work() const override { return mail_.any_signal(rank_); }
  void notify() override { mail_.signal(rank_, rank_); }
  uint32_t doorbell(Sleeper who) const override { return mail_.doorbell(rank_, who); }
  void fall_asleep(Sleeper who) override { mail_.fall_asleep(rank_, who); }
  void hand_to_thread() override { mail_.fall_asleep(rank_, Sleeper::kThread); }
  void awake() override { mail_.awake(rank_); }
  void wait_for_bell(Sleeper who, uint32_t heard, Duration timeout) override {
    mail_.wait_for_bell(rank_, who, heard, timeout);
  }
  void wake() override { mail_.wake(rank_); }
  void ring_for(Sleeper who) override { mail_.ring_for(rank_, who); }

 private:
  struct Inbox {
    Ring ring;
    bool opened = false;  // The ring has memory.
  };
  Ring& from(int source) { return in_[static_cast<size_t>(source)].ring; }

  const std::shared_ptr<const void> owner_;
  const Mail mail_;
  const int rank_;
  std::vector<Ring> out_;
  std::vector<Inbox> in_;
};

}  // namespace switchml::shm
