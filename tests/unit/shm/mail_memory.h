// Zeroed memory for the mail of some ranks, in this process, and messages to be sent with it.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "messages/message.h"
#include "shm/mail.h"
#include "shm/segment.h"

namespace switchml::shm::testing {

class MailMemory {
 public:
  explicit MailMemory(int ranks) : segment_(Segment::create(Mail::bytes(ranks))), mail_(ranks, segment_->data()) {}
  const Mail& mail() const { return mail_; }

 private:
  Result<Segment> segment_;
  const Mail mail_;
};

/// One end of a message with memory of its own, and how it has ended.
class End {
 public:
  End(int peer, int tag, size_t bytes, uint8_t first = 0) : data(bytes) {
    for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<uint8_t>(first + i);
    message_.peer = peer;
    message_.tag = tag;
    message_.bytes = bytes;
    message_.done = [this](const Status& status, int from) {
      ++ends;
      outcome = status;
      source = from;
    };
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  End& by(Time deadline) {
    message_.deadline = deadline;
    return *this;
  }
  Message sent() {
    message_.from = data.data();
    message_.sends = true;
    return message_;
  }
  Message received() {
    message_.to = data.data();
    return message_;
  }
  bool ok() const { return ends == 1 && outcome.ok(); }
  /// Why it has failed; else a sentence that says so.
  std::string error() const { return ends != 1 ? "no end" : outcome.ok() ? "no error" : outcome.to_string(); }

  std::vector<uint8_t> data;
  int ends = 0;
  Status outcome;
  int source = -7;

 private:
  Message message_;
};

}  // namespace switchml::shm::testing
