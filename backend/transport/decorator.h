// A transport that does all as the one below: a base for those that do something else with some of it. It answers
// take_refusal() and queue_pairs(), which are about single peers, as a transport without either does.
#pragma once

#include <string>

#include "transport/transport.h"

namespace switchml {

class TransportDecorator : public Transport {
 public:
  /// `below` outlives it.
  explicit TransportDecorator(Transport& below) : below_(below) {}

  const char* name() const override { return below_.name(); }
  TransportLimits limits() const override { return below_.limits(); }
  Endpoint local() const override { return below_.local(); }
  size_t path_frame_bytes(const Endpoint& to) const override { return below_.path_frame_bytes(to); }
  void allow_fragments(bool allowed) override { below_.allow_fragments(allowed); }
  uint8_t* allocate(size_t bytes) override { return below_.allocate(bytes); }
  size_t send(const TxFrame* frames, size_t count) override { return below_.send(frames, count); }
  size_t receive(RxFrame* frames, size_t count) override { return below_.receive(frames, count); }
  void release() override { below_.release(); }
  void wait(Duration timeout) override { below_.wait(timeout); }
  void pause(Duration timeout) override { below_.pause(timeout); }
  int readable() const override { return below_.readable(); }
  bool is_sending() const override { return below_.is_sending(); }
  void wake() override { below_.wake(); }
  std::string take_error() override { return below_.take_error(); }

 protected:
  Transport& below() const { return below_; }

 private:
  Transport& below_;
};

}  // namespace switchml
