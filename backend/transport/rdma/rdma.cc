#include "transport/rdma/rdma.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "socket/address.h"
#include "socket/fd.h"
#include "transport/rdma/memory.h"
#include "transport/rdma/pair.h"
#include "transport/rdma/port.h"
#include "transport/udp_path.h"
#include "transport/udp_rx.h"
#include "transport/udp_tx.h"
#include "transport/waker.h"
#include "wire/layout.h"

namespace switchml {

namespace {

using rdma::Owned;
using rdma::Pair;
using rdma::PairInfo;

constexpr uint32_t kMostInline = 64;  // headers, requests and replies
constexpr int kBurst = 64;

size_t aligned(size_t bytes) {
  return (bytes + FrameMemory::kAlignment - 1) / FrameMemory::kAlignment * FrameMemory::kAlignment;
}

struct Peer {
  Endpoint endpoint;
  std::unique_ptr<Pair> pair;  // or null
};

struct EndpointHash {
  size_t operator()(const Endpoint& endpoint) const {
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < endpoint.size; ++i) hash = (hash ^ endpoint.bytes[i]) * 0x100000001b3;
    return hash;
  }
};

/// For requests.
struct UdpSide {
  UdpSide(UdpSocket opened, const UdpOptions& options)
      : socket(std::move(opened)),
        receiver(socket, options, &locals, &error),
        sender(socket, options, &locals, &error) {}

  UdpSocket socket;
  LocalAddresses locals;
  SocketError error;
  UdpReceiver receiver;
  UdpSender sender;
};

class RdmaTransport final : public Transport {
 public:
  RdmaTransport(const rdma::Verbs& verbs, const RdmaOptions& options) : verbs_(verbs), options_(options) {}

  ~RdmaTransport() override {
    peers_.clear();
    by_number_.clear();
  }

  Status open() {
    if (!waker_.valid())
      return {Code::kUnavailable, "cannot open an eventfd: " + std::system_category().message(errno)};
    if (options_.asks) {
      if (Status status = open_udp(); !status.ok()) return status;
    }
    auto port = rdma::find_port(verbs_, options_.wish, options_.local);
    if (!port.ok()) return port.status();
    port_ = std::move(port.value());
    Status status = make(verbs_.protection_domain(port_.context.get()), &domain_);
    if (status.ok()) status = make(verbs_.completion_channel(port_.context.get()), &channel_);
    if (status.ok()) {
      status = make(verbs_.completion_queue(port_.context.get(), options_.receive_frames, channel_.get()), &received_);
    }
    if (status.ok()) status = make(verbs_.shared_receives(domain_.get(), options_.receive_frames), &receives_);
    if (status.ok()) status = make_buffers();
    if (status.ok() && ::fcntl(channel_->fd, F_SETFL, O_NONBLOCK) != 0) {
      status = {Code::kUnavailable, "a completion channel cannot be made non-blocking"};
    }
    return status.ok() && udp_ ? watch_both() : status;
  }

  const char* name() const override { return "rdma"; }
  TransportLimits limits() const override {
    const auto frames = static_cast<size_t>(options_.receive_frames);
    return {options_.max_frame_bytes, frames * stride(), frames * stride()};
  }
  Endpoint local() const override { return with_carrier(options_.local, Carrier::kRdma); }
  size_t path_frame_bytes(const Endpoint& /*to*/) const override { return options_.max_frame_bytes; }

  uint8_t* allocate(size_t bytes) override {
    auto data = memory_->allocate(std::max<size_t>(bytes, 1));
    if (!data.ok()) throw std::runtime_error(data.status().message());
    return data.value();
  }

  // ---- peers ----
  Result<wire::Introduction> introduce(const Endpoint& peer) override {
    Peer& its = peers_[peer];
    its.endpoint = peer;
    if (its.pair == nullptr || !its.pair->broken().empty()) {
      if (Status status = renew(its); !status.ok()) return status;
    }
    return its.pair->info().introduction();
  }

  Status meet(const Endpoint& peer, const wire::Introduction& introduction) override {
    const auto info = PairInfo::read(introduction);
    if (!info) return {Code::kInvalidArgument, to_string(peer) + " has introduced itself with what is no queue pair"};
    Peer& its = peers_[peer];
    its.endpoint = peer;
    const bool connected = its.pair != nullptr && its.pair->is_connected() && its.pair->broken().empty();
    if (connected && its.pair->peer() == *info) return {};  // [MEET-4]
    if (connected || its.pair == nullptr || !its.pair->broken().empty()) {
      if (Status status = renew(its); !status.ok()) return status;
    }
    return its.pair->connect(*info);
  }

  bool knows(const Endpoint& peer) const override {
    const auto it = peers_.find(peer);
    return it != peers_.end() && is_ready(it->second);
  }

  void forget(const Endpoint& peer) override {
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
        ask(frames[taken++]);
        continue;
      }
      const size_t run = run_length(frames + taken, count - taken);
      const size_t sent = send_run(frames + taken, run);
      taken += sent;
      if (sent < run) break;
    }
    return taken;
  }

  size_t multicast(const uint8_t* data, uint32_t size, const Endpoint* const* to, size_t count) override {
    if (count == 0 || !is_allowed(size, *to[0])) return count;
    const auto message = message_of({data, size, to[0]}, nullptr);
    if (!message) return 0;
    size_t taken = 0;
    for (; taken < count; ++taken) {
      Peer* const peer = find(*to[taken]);
      if (peer == nullptr) continue;
      if (!has_room(*peer, 1)) {
        if (is_ready(*peer)) break;
        continue;
      }
      add(*peer, *message);
      peer->pair->post();
    }
    release_buffer(message->buffer);
    return taken;
  }

  // ---- receiving ----
  size_t receive(RxFrame* frames, size_t count) override {
    size_t got = udp_ ? receive_replies(frames, count) : 0;
    while (got < count && !early_.empty()) {
      if (lend(early_.back(), &frames[got])) ++got;
      early_.pop_back();
    }
    while (got < count) {
      std::array<ibv_wc, kBurst> completions;
      const int wanted = static_cast<int>(std::min<size_t>(kBurst, count - got));
      const int found = ::ibv_poll_cq(received_.get(), wanted, completions.data());
      if (found < 0) note(local(), "ibv_poll_cq failed");
      for (int i = 0; i < found; ++i) {
        if (lend(completions[static_cast<size_t>(i)], &frames[got])) ++got;
      }
      if (found < wanted) break;
    }
    return got;
  }

  void release() override {
    post_receives(lent_);
    lent_.clear();
    if (udp_) udp_->receiver.release();
  }

  // ---- tensors ----
  void use(const std::shared_ptr<const TensorMemory>& tensors) override { tensors_->use(tensors); }
  std::optional<wire::Target> reach(const void* data, size_t bytes) override {
    const ibv_mr* const region = tensors_->find(data, bytes);
    if (region == nullptr) return std::nullopt;
    return wire::Target{reinterpret_cast<uintptr_t>(data), region->rkey, static_cast<uint32_t>(bytes)};
  }

  // ---- waiting ----
  void wait(Duration timeout) override {
    for (auto& [endpoint, peer] : peers_) {
      if (peer.pair != nullptr && peer.pair->has_under_way()) check(peer);
    }
    if (const int error = ::ibv_req_notify_cq(received_.get(), 0); error != 0) {
      note(local(), "ibv_req_notify_cq: " + std::system_category().message(error));
    }
    // What came before is not told.
    if (has_arrived() || (udp_ && udp_->receiver.has_pending())) return;
    waker_.wait(udp_ ? both_.get() : channel_->fd, timeout);
    for (auto event = verbs_.take_event(channel_.get()); event.ok() && event.value();
         event = verbs_.take_event(channel_.get())) {
    }
  }
  void pause(Duration timeout) override { waker_.wait(-1, timeout); }
  void wake() override { waker_.wake(); }

  std::string take_error() override {
    if (error_.empty() && udp_) error_ = udp_->error.take();
    return std::exchange(error_, std::string());
  }

 private:
  template <typename T>
  static Status make(Result<Owned<T>> made, Owned<T>* to) {
    if (!made.ok()) return made.status();
    *to = std::move(made.value());
    return {};
  }

  // ---- requests by UDP ----
  Status open_udp() {
    auto socket = open_udp_socket(*options_.asks);
    if (!socket.ok()) return socket.status();
    udp_ = std::make_unique<UdpSide>(std::move(socket.value()), *options_.asks);
    const Endpoint to = options_.asks->peer.size > 0 ? options_.asks->peer : options_.route_to;
    options_.local = with_port(local_address_towards(to), port_of(udp_->socket.local));
    return {};
  }

  Status watch_both() {
    both_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
    for (const int fd : {channel_->fd, udp_->socket.fd.get()}) {
      epoll_event event{};
      event.events = EPOLLIN;
      if (both_.valid() && ::epoll_ctl(both_.get(), EPOLL_CTL_ADD, fd, &event) == 0) continue;
      return {Code::kUnavailable, "epoll: " + std::system_category().message(errno)};
    }
    return {};
  }

  /// Whether a frame is a request that the pair is not for, or cannot carry yet.
  bool is_asked(const TxFrame& frame) const {
    if (!udp_ || frame.size < wire::kControlBytes) return false;
    const wire::Control control = wire::read_control(frame.data);
    if (control.kind != static_cast<uint8_t>(wire::Kind::kRequest)) return false;
    return control.type == static_cast<uint8_t>(wire::Request::kMeet) || !knows(*frame.to);
  }

  void ask(const TxFrame& frame) {
    const Endpoint to = with_carrier(*frame.to, Carrier::kPackets);
    const TxFrame packet{frame.data, frame.size, &to};
    udp_->sender.send(&packet, 1);
  }

  size_t receive_replies(RxFrame* frames, size_t count) {
    const size_t got = udp_->receiver.receive(frames, count);
    for (size_t i = 0; i < got; ++i) frames[i].from.carrier = Carrier::kRdma;
    return got;
  }

  size_t stride() const { return aligned(options_.max_frame_bytes); }

  Status make_buffers() {
    memory_.emplace(verbs_, domain_.get(), IBV_ACCESS_LOCAL_WRITE);
    tensors_.emplace(verbs_, domain_.get());
    const auto receives = memory_->allocate(stride() * static_cast<size_t>(options_.receive_frames));
    if (!receives.ok()) return receives.status();
    receive_memory_ = receives.value();
    receive_key_ = memory_->find(receive_memory_, 1)->lkey;
    const auto copies = memory_->allocate(stride() * static_cast<size_t>(options_.send_frames));
    if (!copies.ok()) return copies.status();
    copy_key_ = memory_->find(copies.value(), 1)->lkey;
    copies_.emplace(copies.value(), stride(), options_.send_frames);
    std::vector<uint64_t> all(static_cast<size_t>(options_.receive_frames));
    for (size_t i = 0; i < all.size(); ++i) all[i] = i;
    post_receives(all);
    return error_.empty() ? Status() : Status(Code::kUnavailable, take_error());
  }

  void note(const Endpoint& peer, const std::string& what) {
    if (error_.empty()) error_ = to_string(peer) + ": " + what;
  }

  static bool is_ready(const Peer& peer) {
    return peer.pair != nullptr && peer.pair->is_connected() && peer.pair->broken().empty();
  }

  /// Completions of a pair end with it. Those of receives are taken first, or their buffers would be lost.
  void end_pair(Peer& peer) {
    if (peer.pair == nullptr) return;
    peer.pair->set_broken("it is replaced");
    std::array<ibv_wc, kBurst> completions;
    for (;;) {
      const int found = ::ibv_poll_cq(received_.get(), kBurst, completions.data());
      if (found <= 0) break;
      early_.insert(early_.end(), completions.begin(), completions.begin() + found);
    }
    by_number_.erase(peer.pair->info().number);
    peer.pair.reset();
  }

  /// A pair in place of the one that is there.
  Status renew(Peer& peer) {
    end_pair(peer);
    const Pair::Parts parts{
        &verbs_,    &port_, domain_.get(), received_.get(), receives_.get(), &*copies_, options_.frames_under_way,
        kMostInline};
    auto pair = Pair::create(parts);
    if (!pair.ok()) return pair.status();
    peer.pair = std::move(pair.value());
    by_number_[peer.pair->info().number] = &peer;
    return {};
  }

  /// Null: nobody whom frames can be sent to.
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
    note(to, "a frame of " + std::to_string(size) + " bytes is longer than " +
                 std::to_string(options_.max_frame_bytes) + " and was not sent");
    return false;
  }

  static size_t run_length(const TxFrame* frames, size_t count) {
    size_t run = 1;
    while (run < count && *frames[run].to == *frames[0].to) ++run;
    return run;
  }

  // To a peer that is not there all frames are lost.
  size_t send_run(const TxFrame* frames, size_t count) {
    Peer* const peer = find(*frames[0].to);
    if (peer == nullptr) return count;
    size_t taken = 0;
    for (; taken < count; ++taken) {
      if (!is_allowed(size_t{frames[taken].size} + frames[taken].rest_size, peer->endpoint)) continue;
      if (!send_one(*peer, frames[taken])) break;
    }
    peer->pair->post();
    check_broken(*peer);
    return taken;
  }

  // What goes to a broken pair is lost on its way. False: it has not left.
  bool send_one(Peer& peer, const TxFrame& frame) {
    const bool writes = frame.target.bytes > 0;
    if (!has_room(peer, writes ? 2 : 1)) return !is_ready(peer);
    if (writes) {
      auto written = message_of({frame.rest, frame.rest_size, frame.to}, &peer);
      if (!written) return false;
      written->target = &frame.target;
      add(peer, *written);
      release_buffer(written->buffer);
    }
    const auto sent = message_of(writes ? TxFrame{frame.data, frame.size, frame.to} : frame, &peer);
    if (!sent) return false;
    add(peer, *sent);
    release_buffer(sent->buffer);
    return true;
  }

  bool has_room(Peer& peer, size_t messages) {
    if (peer.pair->has_room(messages)) return true;
    check_broken(peer);
    return false;
  }

  void add(Peer& peer, const Pair::Message& message) {
    if (message.buffer >= 0) copies_->keep(message.buffer);
    peer.pair->add(message);
  }

  static ibv_sge piece(const uint8_t* data, uint32_t size, uint32_t key) {
    return {reinterpret_cast<uint64_t>(data), size, key};
  }

  /// What a card sends: a frame from where it lies, or its copy. Nothing: there is no buffer for it. `filling`: whose
  /// messages are not posted yet, or null.
  std::optional<Pair::Message> message_of(const TxFrame& frame, Peer* filling) {
    Pair::Message message;
    if (frame.rest == nullptr && frame.size <= kMostInline) {
      message.pieces[0] = piece(frame.data, frame.size, 0);
      return message;
    }
    if (find_pieces(frame, &message)) return message;
    message.buffer = take_buffer(filling);
    if (message.buffer < 0) return std::nullopt;
    uint8_t* const copy = copies_->data(message.buffer);
    std::memcpy(copy, frame.data, frame.size);
    if (frame.rest != nullptr) std::memcpy(copy + frame.size, frame.rest, frame.rest_size);
    message.pieces[0] = piece(copy, frame.size + frame.rest_size, copy_key_);
    return message;
  }

  bool find_pieces(const TxFrame& frame, Pair::Message* message) {
    if (frame.may_change) return false;
    const ibv_mr* const head = memory_->find(frame.data, frame.size);
    if (head == nullptr) return false;
    message->pieces[0] = piece(frame.data, frame.size, head->lkey);
    if (frame.rest == nullptr) return true;
    const ibv_mr* const rest = tensors_->find(frame.rest, frame.rest_size);
    if (rest == nullptr) return false;
    message->pieces[1] = piece(frame.rest, frame.rest_size, rest->lkey);
    message->count = 2;
    return true;
  }

  int take_buffer(Peer* filling) {
    if (const int buffer = copies_->take(); buffer >= 0) return buffer;
    if (filling != nullptr) filling->pair->post();
    poll_all();
    return copies_->take();
  }
  void release_buffer(int buffer) {
    if (buffer >= 0) copies_->release(buffer);
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
    if (!peer.pair->broken().empty()) note(peer.endpoint, peer.pair->broken());
  }

  void post_receives(const std::vector<uint64_t>& buffers) {
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
      if (error != 0) return note(local(), "ibv_post_srq_recv: " + std::system_category().message(error));
    }
  }

  // False: nothing for the caller.
  bool lend(const ibv_wc& completion, RxFrame* frame) {
    lent_.push_back(completion.wr_id);
    const auto it = by_number_.find(completion.qp_num);
    if (it == by_number_.end()) return false;  // of a pair that was replaced
    Peer& peer = *it->second;
    if (completion.status != IBV_WC_SUCCESS) {
      peer.pair->set_broken(verbs_.text_of(completion.status));
      check_broken(peer);
      return false;
    }
    frame->data = receive_memory_ + completion.wr_id * stride();
    frame->size = completion.byte_len;
    frame->from = peer.endpoint;
    return true;
  }

  // Whether there is something for receive(), which takes it from where this puts it.
  bool has_arrived() {
    ibv_wc completion;
    if (early_.empty() && ::ibv_poll_cq(received_.get(), 1, &completion) == 1) early_.push_back(completion);
    return !early_.empty();
  }

  const rdma::Verbs verbs_;
  RdmaOptions options_;
  Waker waker_;
  std::string error_;
  std::unique_ptr<UdpSide> udp_;  // or null
  Fd both_;                       // its socket and the channel, to wait for
  rdma::Port port_;
  Owned<ibv_pd> domain_;
  std::optional<rdma::RegisteredMemory> memory_;
  std::optional<rdma::TensorRegions> tensors_;
  Owned<ibv_comp_channel> channel_;
  Owned<ibv_cq> received_;
  Owned<ibv_srq> receives_;
  std::optional<rdma::SendBuffers> copies_;
  uint8_t* receive_memory_ = nullptr;
  uint32_t receive_key_ = 0;
  uint32_t copy_key_ = 0;
  std::vector<uint64_t> lent_;
  std::vector<ibv_wc> early_;                               // taken, but not by receive() yet
  std::unordered_map<Endpoint, Peer, EndpointHash> peers_;  // whose addresses stay
  std::unordered_map<uint32_t, Peer*> by_number_;           // of queue pairs
  Peer* last_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<Transport>> make_rdma_transport(const RdmaOptions& options) {
  const auto verbs = rdma::Verbs::load(options.library);
  if (!verbs.ok()) return verbs.status();
  auto transport = std::make_unique<RdmaTransport>(verbs.value(), options);
  if (Status status = transport->open(); !status.ok()) return status;
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace switchml
