#include "transport/shared_link.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>

#include "base/limits.h"
#include "transport/decorator.h"
#include "wire/packet.h"

namespace switchml {

namespace {

/// So many times others may ask in vain before one that does not ask is taken for one that no thread drives.
constexpr uint64_t kPatience = 8;

/// What the transports have in common.
class Link {
 public:
  Link(std::unique_ptr<Transport> transport, const std::vector<Endpoint>& peers)
      : transport_(std::move(transport)), peers_(peers), inboxes_(peers.size()) {
    for (size_t peer = 0; peer < peers_.size(); ++peer) {
      for (size_t other = 0; other < peers_.size(); ++other) {
        if (peers_[other] == peers_[peer]) inboxes_[peer].twins.push_back(other);
      }
    }
  }

  Transport& transport() { return *transport_; }

  size_t take(size_t peer, RxFrame* frames, size_t count) {
    Inbox& inbox = inboxes_[peer];
    // An empty receive is an answer to all, until one asks again.
    if (inbox.frames.empty() && inbox.asked_at == empty_) fetch();
    inbox.asked_at = empty_;
    const size_t taken = std::min(count, inbox.frames.size());
    std::copy_n(inbox.frames.begin(), taken, frames);
    inbox.frames.erase(inbox.frames.begin(), inbox.frames.begin() + static_cast<std::ptrdiff_t>(taken));
    waiting_ -= taken;
    lent_ += taken;
    return taken;
  }
  void give_back(size_t frames) {
    lent_ -= frames;
    release_if_idle();
  }
  bool has_waiting() const { return waiting_ > 0; }
  void on_sent(size_t peer, const TxFrame* frames, size_t count) {
    Inbox& inbox = inboxes_[peer];
    if (inbox.twins.size() == 1) return;
    for (size_t i = 0; i < count; ++i) {
      if (job_of(frames[i].data, frames[i].size) != 0) inbox.job = job_of(frames[i].data, frames[i].size);
    }
  }

 private:
  struct Inbox {
    std::deque<RxFrame> frames;  // lent by the link, and not taken yet
    uint64_t asked_at = 0;       // empty_ when it was asked for last
    std::vector<size_t> twins;   // peers at the same endpoint, this one among them
    uint8_t job = 0;             // the job of what was sent to it; 0: nothing yet
  };

  /// 0: a control message.
  static uint8_t job_of(const uint8_t* frame, size_t size) {
    if (size < wire::kHeaderBytes) return 0;
    const auto kind = static_cast<wire::Kind>(wire::kind_of(frame));
    return kind == wire::Kind::kRequest || kind == wire::Kind::kReply ? uint8_t{0} : frame[wire::kHeaderOffsetJob];
  }

  // Peers at one endpoint are sessions at one switch: what is of a job concerns one of them.
  void deliver(const RxFrame& frame) {
    const std::vector<size_t>& twins = inboxes_[last_].twins;
    const uint8_t job = twins.size() == 1 ? uint8_t{0} : job_of(frame.data, frame.size);
    for (const size_t peer : twins) {
      if (job != 0 && job != inboxes_[peer].job) continue;
      inboxes_[peer].frames.push_back(frame);
      ++waiting_;
    }
  }

  void fetch() {
    std::array<RxFrame, kBurst> frames;
    const size_t count = transport_->receive(frames.data(), frames.size());
    holds_ = holds_ || count > 0;
    for (size_t i = 0; i < count; ++i) {
      if (find(frames[i].from)) deliver(frames[i]);
    }
    if (count == 0) {
      ++empty_;
      drop_unasked();
    }
    release_if_idle();  // they may all have been of strangers
  }

  // The link may have nothing because all its buffers hold frames for a peer's transport that does not take them.
  void drop_unasked() {
    if (waiting_ == 0) return;
    for (Inbox& inbox : inboxes_) {
      if (empty_ - inbox.asked_at <= kPatience) continue;
      waiting_ -= inbox.frames.size();
      inbox.frames.clear();
    }
  }

  // Frames come in runs of one peer.
  bool find(const Endpoint& from) {
    if (peers_[last_] == from) return true;
    const auto found = std::find(peers_.begin(), peers_.end(), from);
    if (found == peers_.end()) return false;
    last_ = static_cast<size_t>(found - peers_.begin());
    return true;
  }

  void release_if_idle() {
    if (!holds_ || lent_ > 0 || waiting_ > 0) return;
    transport_->release();
    holds_ = false;
  }

  const std::unique_ptr<Transport> transport_;
  const std::vector<Endpoint> peers_;
  std::vector<Inbox> inboxes_;  // one for each peer
  size_t waiting_ = 0;          // frames in all of them
  size_t lent_ = 0;             // taken, and not given back
  bool holds_ = false;          // frames that are to be released
  size_t last_ = 0;             // the sender of the last frame
  uint64_t empty_ = 0;          // how often the link has had nothing
};

class PeerTransport final : public TransportDecorator {
 public:
  PeerTransport(std::shared_ptr<Link> link, size_t peer)
      : TransportDecorator(link->transport()), link_(std::move(link)), peer_(peer) {}

  TransportLimits limits() const override {
    TransportLimits limits = below().limits();
    if (peer_ > 0) limits.held_bytes = 0;  // the first one has it all
    return limits;
  }
  size_t send(const TxFrame* frames, size_t count) override {
    link_->on_sent(peer_, frames, count);
    return below().send(frames, count);
  }
  size_t receive(RxFrame* frames, size_t count) override {
    const size_t taken = link_->take(peer_, frames, count);
    lent_ += taken;
    return taken;
  }
  void release() override {
    link_->give_back(lent_);
    lent_ = 0;
  }
  void wait(Duration timeout) override {
    if (!link_->has_waiting()) below().wait(timeout);
  }
  bool gathers() const override { return below().gathers(); }
  QueuePairs* queue_pairs() override { return below().queue_pairs(); }

 private:
  const std::shared_ptr<Link> link_;
  const size_t peer_;
  size_t lent_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> share_link(std::unique_ptr<Transport> link,
                                                   const std::vector<Endpoint>& peers) {
  const auto shared = std::make_shared<Link>(std::move(link), peers);
  std::vector<std::unique_ptr<Transport>> transports;
  for (size_t peer = 0; peer < peers.size(); ++peer)
    transports.push_back(std::make_unique<PeerTransport>(shared, peer));
  return transports;
}

}  // namespace switchml
