#include "transport/rdma/rdma.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "socket/address.h"
#include "socket/endpoint_hash.h"
#include "transport/rdma/backlog.h"
#include "transport/rdma/card_transport.h"
#include "wire/layout.h"

namespace switchml {

namespace {

using rdma::aligned;
using rdma::keep;
using rdma::Owned;
using rdma::Pair;
using rdma::PairInfo;

constexpr int kBurst = 64;
// Bounds what a card, or its emulation, may leave unsaid.
constexpr Duration kFlushPatience = seconds(1);

struct Peer {
  Endpoint endpoint;
  std::unique_ptr<Pair> pair;  // or null
  rdma::Backlog held;
};

struct Ending {
  std::unique_ptr<Pair> pair;
  Time until;  // whatever the card says
};

class RdmaTransport final : public rdma::CardTransport {
 public:
  RdmaTransport(const rdma::Verbs& verbs, const RdmaOptions& options)
      : CardTransport(verbs, options), options_(options) {}

  ~RdmaTransport() override {
    peers_.clear();
    ending_.clear();
    by_number_.clear();
  }

  Status open() {
    Status status = card_.open();
    if (status.ok()) status = keep(card_.completions(options_.receive_frames), &received_);
    if (status.ok()) status = keep(card_.verbs().shared_receives(card_.domain(), options_.receive_frames), &receives_);
    return status.ok() ? make_buffers() : status;
  }

  TransportLimits limits() const override {
    const auto frames = static_cast<size_t>(options_.receive_frames);
    return {options_.max_frame_bytes, frames * stride(), frames * stride()};
  }
  Endpoint local() const override { return with_carrier(card_.local(), Carrier::kRdma); }
  size_t path_frame_bytes(const Endpoint& /*to*/) const override { return options_.max_frame_bytes; }

  // ---- peers ----
  Result<wire::Introduction> queue_pair_for(const Endpoint& peer) override {
    Peer& its = peers_[peer];
    its.endpoint = peer;
    if (!is_usable(its)) {
      if (Status status = renew(its); !status.ok()) return status;
    }
    return its.pair->info().introduction();
  }

  Status connect(const Endpoint& peer, const wire::Introduction& introduction) override {
    const auto info = PairInfo::read(introduction, wire::Service::kReliableConnected);
    if (!info) return {Code::kInvalidArgument, to_string(peer) + " has introduced itself with what is no queue pair"};
    Peer& its = peers_[peer];
    its.endpoint = peer;
    if (is_ready(its) && its.pair->peer() == *info) return {};  // [MEET-4]
    if (is_ready(its) || !is_usable(its)) {
      if (Status status = renew(its); !status.ok()) return status;
    }
    return its.pair->connect(*info);
  }

  bool is_connected(const Endpoint& peer) const override {
    const auto it = peers_.find(peer);
    return it != peers_.end() && is_ready(it->second);
  }

  void disconnect(const Endpoint& peer) override {
    const auto it = peers_.find(peer);
    if (it == peers_.end()) return;
    end_pair(it->second);
    if (last_ == &it->second) last_ = nullptr;
    peers_.erase(it);
  }

  // ---- sending ----
  size_t send(const TxFrame* frames, size_t count) override {
    size_t taken = 0;
    while (taken < count) {
      if (is_asked(frames[taken])) {
        card_.ask(frames[taken++]);
        continue;
      }
      const size_t same = same_length(frames + taken, count - taken);
      const size_t run = same > 1 ? same : run_length(frames + taken, count - taken);
      const size_t sent = same > 1 ? send_same(frames + taken, same) : send_run(frames + taken, run);
      taken += sent;
      if (sent < run) break;
    }
    return taken;
  }

  // ---- receiving ----
  size_t receive(RxFrame* frames, size_t count) override {
    size_t got = card_.receive_replies(frames, count, Carrier::kRdma);
    end_flushed();
    send_held();
    while (got < count && !early_.empty()) {
      if (lend(early_.back(), &frames[got])) ++got;
      early_.pop_back();
    }
    while (got < count) {
      std::array<ibv_wc, kBurst> completions;
      const int wanted = static_cast<int>(std::min<size_t>(kBurst, count - got));
      const int found = poll_received(wanted, completions.data());
      for (int i = 0; i < found; ++i) {
        if (lend(completions[static_cast<size_t>(i)], &frames[got])) ++got;
      }
      if (found < wanted) break;
    }
    post_receives(&unused_);
    return got;
  }

  void release() override {
    post_receives(&lent_);
    card_.release();
  }

  // ---- tensors ----
  void register_memory(const std::shared_ptr<const TensorMemory>& tensors) override { sender_->tensors().use(tensors); }
  std::optional<wire::Target> target_of(const void* data, size_t bytes) override {
    const ibv_mr* const region = sender_->tensors().find(data, bytes);
    if (region == nullptr) return std::nullopt;
    return wire::Target{reinterpret_cast<uintptr_t>(data), region->rkey, static_cast<uint32_t>(bytes)};
  }

  // ---- waiting ----
  void wait(Duration timeout) override {
    for (auto& [endpoint, peer] : peers_) {
      if (peer.pair != nullptr && peer.pair->has_under_way()) check(peer);
    }
    end_flushed();
    send_held();
    if (waits_) watch_sent();
    for (const Ending& ending : ending_) timeout = std::min<Duration>(timeout, ending.until - monotonic_now());
    card_.arm(received_.get());
    // What came before is not told.
    if (!has_arrived() && !card_.has_replies()) card_.wait(timeout);
  }

 private:
  /// Whether a frame is a request that the pair is not for, or cannot carry yet.
  bool is_asked(const TxFrame& frame) const {
    if (!card_.asks()) return false;
    if (frame.beside) return true;
    if (frame.size < wire::kControlBytes) return false;
    const wire::Control control = wire::read_control(frame.data);
    if (control.kind != static_cast<uint8_t>(wire::Kind::kRequest)) return false;
    return control.type == static_cast<uint8_t>(wire::Request::kMeet) || !is_connected(*frame.to);
  }

  size_t stride() const { return aligned(options_.max_frame_bytes); }

  Status make_buffers() {
    sender_.emplace(card_);
    const auto receives = sender_->memory().allocate(stride() * static_cast<size_t>(options_.receive_frames));
    if (!receives.ok()) return receives.status();
    receive_memory_ = receives.value();
    receive_key_ = sender_->memory().find(receive_memory_, 1)->lkey;
    if (Status status = sender_->open(options_.max_frame_bytes, options_.send_frames); !status.ok()) return status;
    std::vector<uint64_t> all(static_cast<size_t>(options_.receive_frames));
    for (size_t i = 0; i < all.size(); ++i) all[i] = i;
    post_receives(&all);
    const std::string error = take_error();
    return error.empty() ? Status() : Status(Code::kUnavailable, error);
  }

  bool is_usable(const Peer& peer) const {
    return peer.pair != nullptr && peer.pair->broken().empty() && card_.failed().empty();
  }
  bool is_ready(const Peer& peer) const { return is_usable(peer) && peer.pair->is_connected(); }

  /// The pair is no peer's any more. It stays until the card is done with it: what it has begun to receive is in a
  /// buffer that would be lost with it.
  void end_pair(Peer& peer) {
    if (peer.pair == nullptr) return;
    peer.pair->set_broken("it is replaced");
    peer.held = {};
    by_number_.erase(peer.pair->info().number);
    std::vector<ibv_wc> early;
    early.swap(early_);
    for (const ibv_wc& completion : early) keep_early(completion);
    ending_.push_back({std::move(peer.pair), monotonic_now() + kFlushPatience});
    end_flushed();
  }

  /// Completions of a pair end with it, so they are taken first.
  void end_flushed() {
    if (ending_.empty()) return;
    card_.take_events();
    for (const Ending& ending : ending_) ending.pair->poll();
    const Time now = monotonic_now();
    const auto end = std::partition(ending_.begin(), ending_.end(), [now](const Ending& ending) {
      return !ending.pair->may_end() && now < ending.until;
    });
    if (end == ending_.end()) return;
    std::array<ibv_wc, kBurst> completions;
    int found = 0;
    while ((found = poll_received(kBurst, completions.data())) > 0) {
      for (int i = 0; i < found; ++i) keep_early(completions[static_cast<size_t>(i)]);
    }
    ending_.erase(end, ending_.end());
    post_receives(&unused_);
  }

  /// Keeps it for receive(), unless its pair is no peer's any more.
  void keep_early(const ibv_wc& completion) {
    if (by_number_.count(completion.qp_num) > 0) return early_.push_back(completion);
    unused_.push_back(completion.wr_id);
  }

  /// A pair in place of the one that is there.
  Status renew(Peer& peer) {
    end_pair(peer);
    if (!card_.failed().empty()) return {Code::kUnavailable, card_.failed()};
    Pair::Parts parts{&card_.verbs(),  &card_.port(),   card_.domain(),
                      received_.get(), card_.channel(), &sender_->copies()};
    parts.receives = receives_.get();
    parts.depth = options_.frames_under_way;
    auto pair = Pair::create(parts);
    if (!pair.ok()) return pair.status();
    peer.pair = std::move(pair.value());
    by_number_[peer.pair->info().number] = &peer;
    return {};
  }

  /// Null: no peer that frames can be sent to.
  Peer* find(const Endpoint& to) {
    if (last_ == nullptr || last_->endpoint != to) {
      const auto it = peers_.find(to);
      if (it == peers_.end()) return nullptr;
      last_ = &it->second;
    }
    return is_ready(*last_) ? last_ : nullptr;
  }

  bool is_allowed(size_t size, const Endpoint& to) {
    if (size <= options_.max_frame_bytes) return true;
    card_.note(to, "a frame of " + std::to_string(size) + " bytes is longer than " +
                       std::to_string(options_.max_frame_bytes) + " and was not sent");
    return false;
  }

  /// How many of the frames, at least one, are the same one for several peers.
  static size_t same_length(const TxFrame* frames, size_t count) {
    size_t same = 1;
    while (same < count && frames[same].data == frames[0].data && frames[same].size == frames[0].size &&
           frames[same].rest == nullptr && frames[0].rest == nullptr) {
      ++same;
    }
    return same;
  }

  // One copy, if one is needed, serves all.
  size_t send_same(const TxFrame* frames, size_t count) {
    if (!is_allowed(frames[0].size, *frames[0].to)) return count;
    const auto message = message_of(frames[0], nullptr);
    size_t taken = 0;
    for (; taken < count; ++taken) {
      Peer* const peer = find(*frames[taken].to);
      if (peer == nullptr) continue;
      if (message && peer->held.empty() && has_room(*peer, 1)) {
        sender_->add(*message, peer->pair.get());
        peer->pair->post();
      } else if (is_ready(*peer) && !peer->held.add(frames[taken], options_.waiting_bytes)) {
        break;
      }
      waits_ = waits_ || !peer->held.empty();
    }
    if (message) sender_->release(*message);
    return taken;
  }

  static size_t run_length(const TxFrame* frames, size_t count) {
    size_t run = 1;
    while (run < count && *frames[run].to == *frames[0].to) ++run;
    return run;
  }

  // All frames to a peer that is not there are lost.
  size_t send_run(const TxFrame* frames, size_t count) {
    Peer* const peer = find(*frames[0].to);
    if (peer == nullptr) return count;
    size_t taken = 0;
    for (; taken < count; ++taken) {
      const TxFrame& frame = frames[taken];
      if (!is_allowed(size_t{frame.size} + frame.rest_size, peer->endpoint)) continue;
      if (peer->held.empty() && send_one(*peer, frame)) continue;
      if (!peer->held.add(frame, options_.waiting_bytes)) break;
      waits_ = true;
    }
    peer->pair->post();
    check_broken(*peer);
    return taken;
  }

  /// What there is room for by now.
  void send_held() {
    if (!std::exchange(waits_, false)) return;
    for (auto& [endpoint, peer] : peers_) {
      if (peer.held.empty()) continue;
      while (!peer.held.empty() && send_one(peer, peer.held.front(endpoint))) {
        peer.pair->post();  // takes bytes that go inline
        peer.held.pop();
      }
      waits_ = waits_ || !peer.held.empty();
      check_broken(peer);
    }
  }

  /// What is sent from now on ends a card's wait().
  void watch_sent() {
    for (auto& [endpoint, peer] : peers_) {
      if (peer.pair == nullptr || !peer.pair->has_under_way()) continue;
      if (const Status armed = peer.pair->arm(); !armed.ok()) card_.note(endpoint, armed.message());
      check(peer);
    }
    send_held();
  }

  // What goes to a broken pair is lost on its way. False: it has not left.
  bool send_one(Peer& peer, const TxFrame& frame) {
    const bool writes = frame.target.bytes > 0;
    if (!has_room(peer, writes ? 2 : 1)) return !is_ready(peer);
    if (writes) {
      TxFrame elements{frame.rest, frame.rest_size, frame.to};
      elements.may_change = frame.may_change;
      auto written = message_of(elements, &peer);
      if (!written) return false;
      written->target = &frame.target;
      add(peer, *written);
    }
    TxFrame told = frame;
    if (writes) told.rest = nullptr;
    const auto sent = message_of(told, &peer);
    if (!sent) return false;
    add(peer, *sent);
    return true;
  }

  bool has_room(Peer& peer, size_t messages) {
    if (peer.pair->has_room(messages)) return true;
    check_broken(peer);
    return false;
  }

  void add(Peer& peer, const Pair::Message& message) {
    sender_->add(message, peer.pair.get());
    sender_->release(message);
  }

  /// `filling`: the pair with messages that are not posted yet, or null.
  std::optional<Pair::Message> message_of(const TxFrame& frame, Peer* filling) {
    return sender_->message_of(frame, filling == nullptr ? nullptr : filling->pair.get(), [this, filling] {
      if (filling != nullptr) filling->pair->post();
      poll_all();
    });
  }

  void poll_all() {
    for (auto& [endpoint, peer] : peers_) {
      if (peer.pair != nullptr) check(peer);
    }
  }

  void check(Peer& peer) {
    peer.pair->poll();
    check_broken(peer);
  }
  void check_broken(const Peer& peer) {
    if (!peer.pair->broken().empty()) card_.note(peer.endpoint, peer.pair->broken());
  }

  /// Those that the card does not take stay there for the next time.
  void post_receives(std::vector<uint64_t>* returned) {
    const std::vector<uint64_t>& buffers = *returned;
    std::array<ibv_recv_wr, kBurst> requests{};
    std::array<ibv_sge, kBurst> pieces{};
    for (size_t begin = 0; begin < buffers.size(); begin += kBurst) {
      const size_t count = std::min<size_t>(kBurst, buffers.size() - begin);
      for (size_t i = 0; i < count; ++i) {
        const uint64_t buffer = buffers[begin + i];
        pieces[i] = {reinterpret_cast<uint64_t>(receive_memory_ + buffer * stride()), static_cast<uint32_t>(stride()),
                     receive_key_};
        requests[i] = {buffer, i + 1 < count ? &requests[i + 1] : nullptr, &pieces[i], 1};
      }
      ibv_recv_wr* bad = nullptr;
      const int error = ::ibv_post_srq_recv(receives_.get(), requests.data(), &bad);
      if (error == 0) continue;
      card_.note(local(), "ibv_post_srq_recv: " + std::system_category().message(error));
      const ptrdiff_t posted = bad == nullptr ? 0 : bad - requests.data();
      returned->erase(returned->begin(), returned->begin() + static_cast<ptrdiff_t>(begin) + posted);
      return;
    }
    returned->clear();
  }

  int poll_received(int count, ibv_wc* completions) {
    const int found = ::ibv_poll_cq(received_.get(), count, completions);
    if (found < 0) card_.note(local(), "ibv_poll_cq failed");
    return found;
  }

  // False: nothing for the caller.
  bool lend(const ibv_wc& completion, RxFrame* frame) {
    unused_.push_back(completion.wr_id);
    const auto it = by_number_.find(completion.qp_num);
    if (it == by_number_.end()) return false;  // the pair was replaced
    Peer& peer = *it->second;
    if (completion.status != IBV_WC_SUCCESS) {
      peer.pair->set_broken(card_.verbs().text_of(completion.status));
      check_broken(peer);
      return false;
    }
    unused_.pop_back();
    lent_.push_back(completion.wr_id);
    frame->data = receive_memory_ + completion.wr_id * stride();
    frame->size = completion.byte_len;
    frame->from = peer.endpoint;
    frame->beside = false;
    return true;
  }

  // Whether there is something for receive(), which takes it from where this puts it.
  bool has_arrived() {
    ibv_wc completion;
    if (early_.empty() && poll_received(1, &completion) == 1) early_.push_back(completion);
    return !early_.empty();
  }

  const RdmaOptions options_;
  Owned<ibv_cq> received_;
  Owned<ibv_srq> receives_;
  uint8_t* receive_memory_ = nullptr;
  uint32_t receive_key_ = 0;
  std::vector<uint64_t> lent_;
  std::vector<uint64_t> unused_;  // buffers to be posted again at once
  std::vector<ibv_wc> early_;     // taken, but not by receive() yet
  std::vector<Ending> ending_;
  std::unordered_map<Endpoint, Peer, EndpointHash> peers_;  // pointers to them stay valid
  std::unordered_map<uint32_t, Peer*> by_number_;           // keyed by queue pair
  Peer* last_ = nullptr;
  bool waits_ = false;  // some frame for room
};

}  // namespace

Result<std::unique_ptr<Transport>> make_rdma_transport(const RdmaOptions& options) {
  return rdma::CardTransport::make<RdmaTransport>(options);
}

}  // namespace switchml
