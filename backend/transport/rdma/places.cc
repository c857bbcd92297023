#include "transport/rdma/places.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "socket/address.h"
#include "socket/sockaddr.h"
#include "transport/rdma/outgoing.h"
#include "wire/packet.h"

namespace switchml {

namespace {

using rdma::Owned;
using rdma::Pair;
using rdma::PairInfo;
using rdma::Places;

class PlacesTransport final : public rdma::CardTransport {
 public:
  PlacesTransport(const rdma::Verbs& verbs, const CardOptions& options)
      : CardTransport(verbs, options), options_(options) {}

  Status open() {
    if (Status status = card_.open(); !status.ok()) return status;
    // A switch writes to the sender's address, and understands no other. [RDMA-13]
    const ibv_gid own = rdma::gid_of(card_.local());
    if (family_of(card_.local()) != AF_INET || std::memcmp(card_.port().gid.raw, own.raw, sizeof own.raw) != 0) {
      return {Code::kUnavailable, "switches write to IPv4 addresses that requests come from: this host's is " +
                                      to_literal(card_.local()) + ", and that of card " + card_.port().device + " " +
                                      rdma::to_string(card_.port().gid)};
    }
    outgoing_.emplace(card_);
    return outgoing_->open(packet_bytes(), options_.send_frames);
  }

  TransportLimits limits() const override { return {packet_bytes(), 0, places_ ? places_->bytes() : 0}; }
  Endpoint local() const override { return with_carrier(card_.local(), Carrier::kPlaces); }
  size_t path_frame_bytes(const Endpoint& /*to*/) const override { return packet_bytes(); }

  // ---- the peer ----
  Status post_receive_windows(SlotRange slots, size_t frame_bytes) override {
    if (frame_bytes > packet_bytes()) {
      return {Code::kInvalidArgument, "frames of " + std::to_string(frame_bytes) + " bytes: a packet of card " +
                                          card_.port().device + " carries " + std::to_string(packet_bytes()) +
                                          ": set SWITCHML_PAYLOAD lower, or the interface's MTU higher"};
    }
    end_pair();
    places_.reset();
    const auto& facts = card_.port().facts;
    receives_ = std::min({2 * static_cast<int>(slots.count), facts.max_queue_entries, facts.max_completions});
    if (Status status = rdma::keep(card_.completions(receives_), &received_); !status.ok()) return status;
    auto places = Places::open(card_.verbs(), card_.domain(), slots, frame_bytes);
    if (!places.ok()) return places.status();
    places_.emplace(std::move(places.value()));
    frame_bytes_ = frame_bytes;
    lent_memory_.resize(kMostLent * places_->place_bytes());
    return {};
  }

  Result<wire::Introduction> queue_pair_for(const Endpoint& peer) override {
    if (!places_) return Status(Code::kInternal, to_string(peer) + ": nothing is expected of it");
    if (!is_usable() || peer != peer_) {
      if (Status status = renew(peer); !status.ok()) return status;
    }
    return pair_->info().introduction();
  }

  Status connect(const Endpoint& peer, const wire::Introduction& introduction) override {
    const auto its = PairInfo::read(introduction, wire::Service::kUnreliableConnected);
    const bool fits = its && places_ && its->places.bits == places_->told().bits && bytes_of(its->mtu) >= frame_bytes_;
    if (!fits) {
      return {Code::kInvalidArgument, to_string(peer) +
                                          " has introduced itself with what is no unreliable queue pair "
                                          "for this session"};
    }
    if (is_connected(peer) && pair_->peer() == *its) return {};  // [MEET-4]
    // Another pair of ours would be one that the peer has not been told of, and nothing would ever come.
    const bool is_unmet = is_usable() && !pair_->is_connected() && peer == peer_;
    if (is_unmet) return pair_->connect(*its);
    end_pair();
    return {Code::kUnavailable, to_string(peer) + " has introduced itself to a pair that is no more"};
  }

  bool is_connected(const Endpoint& peer) const override { return is_ready() && peer == peer_; }
  void disconnect(const Endpoint& peer) override {
    if (peer == peer_) end_pair();
  }

  // ---- sending ----
  size_t send(const TxFrame* frames, size_t count) override {
    size_t taken = 0;
    while (taken < count && send_one(frames[taken])) ++taken;
    if (pair_ == nullptr) return taken;
    pair_->post();
    check_broken();
    return taken;
  }

  // ---- receiving ----
  size_t receive(RxFrame* frames, size_t count) override {
    size_t got = card_.receive_replies(frames, count, Carrier::kPlaces);
    while (got < count && lent_ < kMostLent && take_completions(std::min(count - got, kMostLent - lent_))) {
      for (const ibv_wc& completion : completions_) got += lend(completion, &frames[got]) ? 1 : 0;
      completions_.clear();
    }
    return got;
  }

  void release() override {
    lent_ = 0;
    card_.release();
  }

  // ---- waiting ----
  void wait(Duration timeout) override {
    if (pair_ != nullptr) {
      if (pair_->has_under_way()) pair_->poll();
      check_broken();
      card_.arm(received_.get());
    }
    // What came before is not told.
    if (!take_completions(1) && !card_.has_replies()) card_.wait(timeout);
  }

 private:
  static constexpr size_t kBurst = 64;
  static constexpr size_t kMostLent = 256;     // results
  static constexpr size_t kSmallestMtu = 128;  // bytes, times two for each step from 1 on

  /// What a packet carries behind the transport's headers.
  size_t packet_bytes() const { return bytes_of(card_.port().mtu); }
  static size_t bytes_of(ibv_mtu mtu) { return kSmallestMtu << mtu; }

  bool is_usable() const { return pair_ != nullptr && pair_->broken().empty() && card_.failed().empty(); }
  bool is_ready() const { return is_usable() && pair_->is_connected(); }
  void check_broken() {
    if (pair_ != nullptr && !pair_->broken().empty()) card_.note(peer_, pair_->broken());
  }

  /// Not all libraries take its completions out of the queue.
  void end_pair() {
    pair_.reset();
    completions_.resize(kBurst);
    while (received_ != nullptr && ::ibv_poll_cq(received_.get(), kBurst, completions_.data()) > 0) {
    }
    completions_.clear();
  }

  /// A pair for this peer that is not connected yet.
  Status renew(const Endpoint& peer) {
    end_pair();
    if (!card_.failed().empty()) return {Code::kUnavailable, card_.failed()};
    Pair::Parts parts{&card_.verbs(),  &card_.port(),   card_.domain(),
                      received_.get(), card_.channel(), &outgoing_->copies()};
    // As many as there are slots, and repeated ones. A pair takes one more.
    const auto& facts = card_.port().facts;
    const int most = std::min({receives_, facts.max_queue_entries - 1, facts.max_completions - 1});
    parts.depth = std::max(options_.frames_under_way, most);
    parts.own_receives = receives_;
    parts.places = places_->told();
    auto pair = Pair::create(parts);
    if (!pair.ok()) return pair.status();
    pair.value()->post_receives(receives_);
    if (!pair.value()->broken().empty()) return {Code::kUnavailable, pair.value()->broken()};
    pair_ = std::move(pair.value());
    peer_ = peer;
    return {};
  }

  // ---- sending ----
  static bool is_request(const TxFrame& frame) {
    return frame.size > 0 && wire::kind_of(frame.data) == static_cast<uint8_t>(wire::Kind::kRequest);
  }

  // A frame to no peer, or to a broken pair, is lost on its way. False: it has not left.
  bool send_one(const TxFrame& frame) {
    if (is_request(frame)) {
      card_.ask(frame);
      return true;
    }
    if (!is_connected(*frame.to) || !is_allowed(frame)) return true;
    if (!pair_->has_room(1)) return !is_ready();
    auto message = outgoing_->message_of(frame, nullptr, [this] {
      pair_->post();
      pair_->poll();
    });
    if (!message) return !is_ready();
    const wire::Header header = wire::read_header(frame.data);
    const rdma::PlaceMemory& its = pair_->peer().places;
    const wire::Target target{its.address + Places::offset(header.slot, header.seq, its.bits), its.rkey, frame.size};
    message->target = &target;
    message->immediate = immediate_of(header);
    outgoing_->add(*message, pair_.get());
    outgoing_->release(*message);
    return true;
  }

  bool is_allowed(const TxFrame& frame) {
    const size_t size = size_t{frame.size} + frame.rest_size;
    const size_t most = std::min(packet_bytes(), places_->place_bytes());
    if (frame.size >= wire::kHeaderBytes && size <= most) return true;
    card_.note(*frame.to, "a frame of " + std::to_string(size) + " bytes was not sent: allowed are " +
                              std::to_string(wire::kHeaderBytes) + " to " + std::to_string(most));
    return false;
  }

  static uint32_t immediate_of(const wire::Header& header) {
    uint32_t travels = 0;
    std::array<uint8_t, wire::kImmediateBytes> bytes{};
    wire::write_immediate({header.slot, static_cast<uint16_t>(header.seq)}, bytes.data());
    std::memcpy(&travels, bytes.data(), sizeof travels);
    return travels;
  }

  // ---- receiving ----
  /// Those that are there, up to so many, into completions_. False: there is none.
  bool take_completions(size_t most) {
    if (pair_ == nullptr || !completions_.empty()) return !completions_.empty();
    completions_.resize(std::min(most, kBurst));
    const int found = ::ibv_poll_cq(received_.get(), static_cast<int>(completions_.size()), completions_.data());
    if (found < 0) card_.note(peer_, "ibv_poll_cq failed");
    completions_.resize(static_cast<size_t>(std::max(found, 0)));
    if (is_ready()) pair_->post_receives(static_cast<int>(completions_.size()));
    return !completions_.empty();
  }

  // False: nothing for the caller. The copy is what is read: a place may be written to again at any time.
  bool lend(const ibv_wc& completion, RxFrame* frame) {
    if (completion.status != IBV_WC_SUCCESS) {
      pair_->set_broken(card_.verbs().text_of(completion.status));
      check_broken();
      return false;
    }
    std::array<uint8_t, wire::kImmediateBytes> bytes{};
    std::memcpy(bytes.data(), &completion.imm_data, sizeof completion.imm_data);
    const wire::Immediate told = wire::read_immediate(bytes.data());
    const bool is_told = (completion.wc_flags & IBV_WC_WITH_IMM) != 0;
    if (!is_told || !places_->hold(told.slot) || completion.byte_len > places_->place_bytes()) return false;
    uint8_t* const copy = lent_memory_.data() + lent_++ * places_->place_bytes();
    std::memcpy(copy, places_->place(told.slot, told.seq_low), completion.byte_len);
    frame->data = copy;
    frame->size = completion.byte_len;
    frame->from = peer_;
    return true;
  }

  const CardOptions options_;
  std::optional<Places> places_;
  size_t frame_bytes_ = 0;  // the largest frame that is expected
  int receives_ = 0;
  Owned<ibv_cq> received_;
  Endpoint peer_;
  std::unique_ptr<Pair> pair_;        // or null
  std::vector<ibv_wc> completions_;   // taken, but not lent yet
  std::vector<uint8_t> lent_memory_;  // kMostLent results
  size_t lent_ = 0;
};

}  // namespace

Result<std::unique_ptr<Transport>> make_places_transport(const CardOptions& options) {
  return rdma::CardTransport::make<PlacesTransport>(options);
}

}  // namespace switchml
