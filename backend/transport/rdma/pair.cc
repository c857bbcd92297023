#include "transport/rdma/pair.h"

#include <endian.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "base/random.h"
#include "wire/control.h"

namespace switchml::rdma {

namespace {

// 4.096 us * 2^14 = 67 ms, repeated six times: a peer is given up after about half a second to two.
constexpr uint8_t kTimeout = 14;
constexpr uint8_t kRetries = 6;          // 7 is without end to Soft-RoCE
constexpr uint8_t kWaitForReceives = 7;  // 7 is "without end": the send queue is the bound
constexpr uint8_t kReceiveTimer = 12;    // 0.64 ms
constexpr uint8_t kHops = 64;
constexpr int kPolled = 16;

uint64_t half(const ibv_gid& gid, size_t begin) {
  uint64_t big = 0;
  std::memcpy(&big, gid.raw + begin, sizeof big);
  return be64toh(big);
}

void set_half(uint64_t value, size_t begin, ibv_gid* gid) {
  const uint64_t big = htobe64(value);
  std::memcpy(gid->raw + begin, &big, sizeof big);
}

}  // namespace

wire::Introduction PairInfo::introduction() const {
  wire::Introduction result;
  result.queue_pair = number;
  result.first_psn = first_psn;
  result.gid_high = half(gid, 0);
  result.gid_low = half(gid, sizeof(uint64_t));
  result.mtu = static_cast<uint8_t>(mtu);
  result.service = static_cast<uint8_t>(service);
  result.place_bits = places.bits;
  result.rkey = places.rkey;
  result.address = places.address;
  return result;
}

std::optional<PairInfo> PairInfo::read(const wire::Introduction& introduction, wire::Service service) {
  if (!wire::introduces(introduction, service)) return std::nullopt;
  PairInfo info;
  info.number = introduction.queue_pair;
  info.first_psn = introduction.first_psn;
  set_half(introduction.gid_high, 0, &info.gid);
  set_half(introduction.gid_low, sizeof(uint64_t), &info.gid);
  info.mtu = static_cast<ibv_mtu>(introduction.mtu);
  info.service = service;
  info.places = {introduction.place_bits, introduction.rkey, introduction.address};
  return info;
}

bool operator==(const PairInfo& a, const PairInfo& b) {
  return a.number == b.number && a.first_psn == b.first_psn && a.mtu == b.mtu && a.service == b.service &&
         a.places.bits == b.places.bits && a.places.rkey == b.places.rkey && a.places.address == b.places.address &&
         std::memcmp(a.gid.raw, b.gid.raw, sizeof a.gid.raw) == 0;
}

SendBuffers::SendBuffers(uint8_t* memory, size_t stride, int count)
    : memory_(memory), stride_(stride), users_(static_cast<size_t>(count)) {
  for (int i = count; i > 0; --i) free_.push_back(i - 1);
}

int SendBuffers::take() {
  if (free_.empty()) return -1;
  const int index = free_.back();
  free_.pop_back();
  users_[static_cast<size_t>(index)] = 1;
  return index;
}

void SendBuffers::release(int index) {
  if (--users_[static_cast<size_t>(index)] == 0) free_.push_back(index);
}

Result<std::unique_ptr<Pair>> Pair::create(const Parts& parts) {
  std::unique_ptr<Pair> pair(new Pair(parts));
  if (Status status = pair->open(); !status.ok()) return status;
  return pair;
}

Status Pair::open() {
  // Every message of a pair that breaks says so.
  const int depth = parts_.depth + 1;  // one more for post_last()
  auto sent = parts_.verbs->completion_queue(parts_.port->context.get(), depth, parts_.channel);
  if (!sent.ok()) return sent.status();
  sent_ = std::move(sent.value());
  ibv_qp_init_attr wanted{};
  wanted.qp_context = this;
  wanted.send_cq = sent_.get();
  wanted.recv_cq = parts_.received;
  wanted.srq = parts_.receives;
  wanted.qp_type = parts_.is_reliable() ? IBV_QPT_RC : IBV_QPT_UC;
  wanted.cap.max_recv_wr = static_cast<uint32_t>(parts_.own_receives);
  wanted.cap.max_send_wr = static_cast<uint32_t>(depth);
  wanted.cap.max_send_sge = 2;  // a header, and elements that lie elsewhere
  wanted.cap.max_inline_data = kMostInline;
  auto pair = parts_.verbs->queue_pair(parts_.domain, wanted);
  if (!pair.ok()) return pair.status();
  pair_ = std::move(pair.value());
  info_.number = pair_->qp_num;
  info_.first_psn = static_cast<uint32_t>(random_bits()) & wire::kMost24Bits;
  info_.gid = parts_.port->gid;
  info_.mtu = parts_.port->mtu;
  info_.service = parts_.is_reliable() ? wire::Service::kReliableConnected : wire::Service::kUnreliableConnected;
  info_.places = parts_.places;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = parts_.port->number;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  return parts_.verbs->modify(pair_.get(), attributes,
                              IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "to INIT");
}

Pair::~Pair() {
  pair_.reset();
  finish(under_way_.size());
}

Status Pair::connect(const PairInfo& peer) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = std::min(peer.mtu, info_.mtu);
  attributes.dest_qp_num = peer.number;
  attributes.rq_psn = peer.first_psn;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = kReceiveTimer;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.port_num = parts_.port->number;
  attributes.ah_attr.grh.dgid = peer.gid;
  attributes.ah_attr.grh.sgid_index = parts_.port->gid_index;
  attributes.ah_attr.grh.hop_limit = kHops;
  attributes.ah_attr.grh.traffic_class = parts_.port->traffic_class;
  attributes.ah_attr.sl = parts_.port->service_level;
  const bool reliable = parts_.is_reliable();
  Status status = parts_.verbs->modify(pair_.get(), attributes,
                                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                           (reliable ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0),
                                       "to RTR");
  if (!status.ok()) return status;
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = info_.first_psn;
  attributes.timeout = kTimeout;
  attributes.retry_cnt = kRetries;
  attributes.rnr_retry = kWaitForReceives;
  attributes.max_rd_atomic = 1;
  status = parts_.verbs->modify(
      pair_.get(), attributes,
      IBV_QP_STATE | IBV_QP_SQ_PSN |
          (reliable ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0),
      "to RTS");
  if (!status.ok()) return status;
  peer_ = peer;
  connected_ = true;
  return {};
}

// What was posted stays under way until it is flushed: until then the card may read it, and send what has become of it.
void Pair::set_broken(const std::string& why) {
  if (!broken_.empty()) return;
  broken_ = why;
  withdraw(std::exchange(added_, 0));
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;  // it may be there already
  is_in_error_ = parts_.verbs->modify(pair_.get(), attributes, IBV_QP_STATE, "to ERR").ok();
  if (is_in_error_ && !under_way_.empty()) post_last();
}

// Messages that were complete before say nothing. This one is flushed, behind all of them.
void Pair::post_last() {
  ibv_send_wr last{}, *bad = nullptr;
  last.wr_id = first_ + under_way_.size();
  last.opcode = IBV_WR_SEND;
  last.send_flags = IBV_SEND_SIGNALED;
  if (::ibv_post_send(pair_.get(), &last, &bad) == 0) under_way_.push_back(-1);
}

// Places in the send queue are free again only when a later message says that it is complete.
bool Pair::wants_signal(int buffer) const {
  return unsignaled_ + 1 >= parts_.depth / 4 || (buffer >= 0 && parts_.buffers->are_scarce());
}

bool Pair::has_room(size_t messages) {
  const auto depth = static_cast<size_t>(parts_.depth);
  if (under_way_.size() + messages > depth) poll();
  return broken_.empty() && under_way_.size() + messages <= depth;
}

void Pair::add(const Message& message) {
  if (added_ == kChain) post();
  pieces_[added_] = message.pieces;
  ibv_send_wr& request = chain_[added_];
  request = {};
  request.wr_id = first_ + under_way_.size();
  request.sg_list = pieces_[added_].data();
  request.num_sge = message.count;
  if (message.target != nullptr) {                                                        // [RDMA-7]
    request.opcode = message.immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;  // [RDMA-11]
    request.imm_data = message.immediate.value_or(0);
    request.wr.rdma.remote_addr = message.target->address;
    request.wr.rdma.rkey = message.target->key;
  } else {
    request.opcode = IBV_WR_SEND;  // [RDMA-1]
  }
  const bool is_inline = message.count == 1 && message.pieces[0].length <= kMostInline;
  if (is_inline) request.send_flags |= IBV_SEND_INLINE;
  const bool signals = wants_signal(message.buffer);
  if (signals) request.send_flags |= IBV_SEND_SIGNALED;
  unsignaled_ = signals ? 0 : unsignaled_ + 1;
  if (added_ > 0) chain_[added_ - 1].next = &request;
  ++added_;
  under_way_.push_back(message.buffer);
  if (message.buffer >= 0) ++in_use_;
}

void Pair::post() {
  if (added_ == 0) return;
  ibv_send_wr* bad = nullptr;
  const int error = ::ibv_post_send(pair_.get(), chain_.data(), &bad);
  const size_t added = std::exchange(added_, 0);
  if (error != 0 && bad != nullptr) withdraw(added - static_cast<size_t>(bad - chain_.data()));
  if (error != 0) set_broken("ibv_post_send: " + std::system_category().message(error));
}

void Pair::post_receives(int count) {
  std::array<ibv_recv_wr, kChain> requests{};
  while (count > 0) {
    const auto some = std::min<size_t>(kChain, static_cast<size_t>(count));
    for (size_t i = 0; i < some; ++i) requests[i].next = i + 1 < some ? &requests[i + 1] : nullptr;
    ibv_recv_wr* bad = nullptr;
    const int error = ::ibv_post_recv(pair_.get(), requests.data(), &bad);
    if (error != 0) return set_broken("ibv_post_recv: " + std::system_category().message(error));
    count -= static_cast<int>(some);
  }
}

Status Pair::arm() {
  const int error = ::ibv_req_notify_cq(sent_.get(), 0);
  return error == 0 ? Status()
                    : Status(Code::kUnavailable, "ibv_req_notify_cq: " + std::system_category().message(error));
}

void Pair::poll() {
  std::array<ibv_wc, kPolled> completions;
  for (;;) {
    const int count = ::ibv_poll_cq(sent_.get(), kPolled, completions.data());
    if (count < 0) return set_broken("ibv_poll_cq failed");
    for (int i = 0; i < count; ++i) {
      const ibv_wc& completion = completions[static_cast<size_t>(i)];
      if (completion.status != IBV_WC_SUCCESS) set_broken(parts_.verbs->text_of(completion.status));
      finish(completion.wr_id + 1 - first_);
    }
    if (count < kPolled) return;
  }
}

void Pair::finish(size_t count) {
  first_ += count;
  for (; count > 0; --count) {
    release(under_way_.front());
    under_way_.pop_front();
  }
}

// The last ones, which the card has not got.
void Pair::withdraw(size_t count) {
  for (; count > 0; --count) {
    release(under_way_.back());
    under_way_.pop_back();
  }
}

void Pair::release(int buffer) {
  if (buffer < 0) return;
  parts_.buffers->release(buffer);
  --in_use_;
}

}  // namespace switchml::rdma
