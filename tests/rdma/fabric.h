// What lies behind the functions of the cards that are not there: their objects, and what becomes of messages.
#pragma once

#include <infiniband/verbs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fake_verbs.h"

namespace switchml::fake_verbs {

inline constexpr int kMostCompletions = 65536;
inline constexpr uint32_t kMostRequests = 16384;
inline constexpr int kMostPieces = 4;
inline constexpr int kPollsToFlush = 20;

[[noreturn]] inline void broken_rule(const char* what) {
  std::fprintf(stderr, "fake_verbs: %s\n", what);
  std::abort();
}

struct Channel {
  ibv_comp_channel base{};
  std::deque<ibv_cq*> events;
};

struct Queue {
  ibv_cq base{};
  std::deque<ibv_wc> completions;
  bool armed = false;
  int unacknowledged = 0;
  int pairs = 0;
};

struct Region {
  ibv_mr base{};
  int access = 0;
};

struct Piece {
  uint64_t address;
  uint32_t length;
  uint32_t key;
};

/// Where a message that is sent may go.
struct Receive {
  uint64_t id;
  std::vector<Piece> pieces;
};

struct SharedReceives {
  ibv_srq base{};
  std::deque<Receive> waiting;
  uint32_t most = 0;
  int pairs = 0;
};

struct Context {
  ibv_context base{};
  std::deque<ibv_async_event> events;
};

struct Message {
  uint64_t id = 0;
  ibv_wr_opcode opcode = IBV_WR_SEND;
  std::vector<Piece> pieces;
  std::vector<uint8_t> inlined;  // Replaces the pieces.
  bool is_inline = false;
  bool is_signaled = false;
  bool is_late = false;  // Posted to a pair in error.
  bool is_copy = false;  // A copy of an earlier or later message: it completes nothing.
  bool is_gone = false;  // A copy has overtaken others: this one completes in its turn.
  uint64_t remote = 0;
  uint32_t remote_key = 0;
  uint32_t immediate = 0;
  std::vector<uint8_t> taken;  // A copy's content.
};

struct Pair {
  ibv_qp base{};
  ibv_qp_init_attr attributes{};
  ibv_gid peer_gid{};
  uint32_t peer = 0;
  std::deque<Message> sending;
  std::deque<Receive> own_receives;
  std::deque<Receive>& receives() {
    return base.srq == nullptr ? own_receives : reinterpret_cast<SharedReceives*>(base.srq)->waiting;
  }
  uint32_t uncompleted = 0;  // Requests that hold a place in the send queue.
  uint32_t unsignaled = 0;   // Requests before the next completion.
  // Reliable pairs: receives that have got the first packet of a message.
  std::deque<Receive> begun;
  int polls_to_flush = -1;  // -1: nothing is to be flushed.
  int unacknowledged = 0;   // Asynchronous events.
};

struct Failure {
  int error;
  int after;
};

class Fabric {
 public:
  std::recursive_mutex mutex;
  Behaviour behaviour;
  Counts counts;
  std::mt19937_64 random{1};
  std::map<uint32_t, Pair*> pairs;
  std::map<uint32_t, Region*> regions;
  std::set<ibv_context*> contexts;
  std::map<std::string, Failure> failures;
  uint32_t next_pair = 17;
  uint32_t next_key = 0x1000;

  bool chance(double share) { return share > 0 && std::uniform_real_distribution<double>(0, 1)(random) < share; }

  /// The error with which this call is to fail; 0: none. Thread-safe.
  int failure(const char* function) {
    const std::lock_guard<std::recursive_mutex> lock(mutex);
    if (behaviour.gone) return EIO;
    const auto it = failures.find(function);
    if (it == failures.end() || it->second.after-- > 0) return 0;
    const int error = it->second.error;
    failures.erase(it);
    ++counts.failures;
    return error;
  }

  void complete(ibv_cq* queue, const ibv_wc& completion) {
    Queue& q = *reinterpret_cast<Queue*>(queue);
    if (q.completions.size() >= static_cast<size_t>(queue->cqe)) broken_rule("a completion queue overflows");
    q.completions.push_back(completion);
    if (!q.armed || queue->channel == nullptr) return;
    q.armed = false;
    ++q.unacknowledged;
    reinterpret_cast<Channel*>(queue->channel)->events.push_back(queue);
    const uint64_t one = 1;
    if (::write(queue->channel->fd, &one, sizeof one) != sizeof one) broken_rule("an event cannot be written");
  }

  void complete_send(Pair& pair, const Message& message, ibv_wc_status status) {
    if (message.is_copy) return;
    ++pair.unsignaled;
    if (!message.is_signaled && status == IBV_WC_SUCCESS) return;
    ibv_wc completion{};
    completion.wr_id = message.id;
    completion.status = status;
    completion.opcode = message.opcode == IBV_WR_SEND ? IBV_WC_SEND : IBV_WC_RDMA_WRITE;
    completion.qp_num = pair.base.qp_num;
    completion.vendor_err = std::exchange(pair.unsignaled, 0);  // places that polling it gives back
    complete(pair.base.send_cq, completion);
  }

  void complete_receive(Pair& pair, const Message& message, size_t bytes, ibv_wc_status status) {
    std::deque<Receive>& from = pair.begun.empty() ? pair.receives() : pair.begun;
    ibv_wc completion{};
    completion.wr_id = from.front().id;
    from.pop_front();
    completion.status = status;
    completion.opcode = message.opcode == IBV_WR_SEND ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM;
    completion.byte_len = static_cast<uint32_t>(bytes);
    if (message.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
      completion.imm_data = message.immediate;
      completion.wc_flags = IBV_WC_WITH_IMM;
    }
    completion.qp_num = pair.base.qp_num;
    complete(pair.base.recv_cq, completion);
  }

  void fail(Pair& pair) {
    if (pair.base.state == IBV_QPS_ERR) return;
    pair.base.state = IBV_QPS_ERR;
    pair.polls_to_flush = kPollsToFlush;
    if (!behaviour.slow_flush && !behaviour.never_flush) flush(pair);
  }

  void flush(Pair& pair) {
    pair.polls_to_flush = -1;
    // A card may send on what it has begun, as the memory is by now.
    if (behaviour.slow_flush && !pair.sending.empty() && !pair.sending.front().is_late) {
      Message begun = std::move(pair.sending.front());
      pair.sending.pop_front();
      begun.is_signaled = true;
      deliver(pair, begun);
    }
    for (const Message& message : pair.sending) complete_send(pair, message, IBV_WC_WR_FLUSH_ERR);
    pair.sending.clear();
    while (!pair.own_receives.empty() || !pair.begun.empty()) {
      complete_receive(pair, Message(), 0, IBV_WC_WR_FLUSH_ERR);
    }
    if (pair.base.srq == nullptr) return;
    ibv_async_event event{};
    event.element.qp = &pair.base;
    event.event_type = IBV_EVENT_QP_LAST_WQE_REACHED;
    tell(pair.base.context, event);
  }

  static bool is_of_pair(ibv_event_type type) {
    return type == IBV_EVENT_QP_LAST_WQE_REACHED || type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR ||
           type == IBV_EVENT_QP_ACCESS_ERR;
  }

  static void tell(ibv_context* context, const ibv_async_event& event) {
    reinterpret_cast<Context*>(context)->events.push_back(event);
    const uint64_t one = 1;
    if (::write(context->async_fd, &one, sizeof one) != sizeof one) broken_rule("an event cannot be written");
  }

  const Region* region(uint32_t key, const ibv_pd* domain, uint64_t address, uint64_t length, int access) const {
    const auto it = regions.find(key);
    if (it == regions.end()) return nullptr;
    const ibv_mr& mr = it->second->base;
    const auto begin = reinterpret_cast<uint64_t>(mr.addr);
    const bool inside = address >= begin && length <= mr.length && address - begin <= mr.length - length;
    return mr.pd == domain && inside && (it->second->access & access) == access ? it->second : nullptr;
  }

  /// What the message holds now. False: a piece is not in a region of the pair's domain.
  bool gather(const Pair& pair, const Message& message, std::vector<uint8_t>* bytes) const {
    if (message.is_copy || message.is_inline) {
      *bytes = message.is_copy ? message.taken : message.inlined;
      return true;
    }
    for (const Piece& piece : message.pieces) {
      if (piece.length == 0) continue;
      if (region(piece.key, pair.base.pd, piece.address, piece.length, 0) == nullptr) return false;
      const auto* const from = reinterpret_cast<const uint8_t*>(piece.address);
      bytes->insert(bytes->end(), from, from + piece.length);
    }
    return true;
  }

  Pair* peer_of(const Pair& pair) {
    const auto it = pairs.find(pair.peer);
    if (it == pairs.end()) return nullptr;
    Pair& peer = *it->second;
    const bool receives = peer.base.state == IBV_QPS_RTR || peer.base.state == IBV_QPS_RTS;
    return receives && peer.peer == pair.base.qp_num && peer.base.qp_type == pair.base.qp_type ? &peer : nullptr;
  }

  /// Into what the peer has posted. False: it does not fit.
  bool scatter(const Pair& peer, const Receive& receive, const std::vector<uint8_t>& bytes, size_t written) const {
    size_t begin = 0;
    for (const Piece& piece : receive.pieces) {
      const size_t length = std::min<size_t>(piece.length, bytes.size() - begin);
      if (length == 0) break;
      if (region(piece.key, peer.base.pd, piece.address, length, IBV_ACCESS_LOCAL_WRITE) == nullptr) return false;
      const size_t part = std::min(length, written - std::min(begin, written));
      if (part > 0) std::memcpy(reinterpret_cast<void*>(piece.address), bytes.data() + begin, part);
      begin += length;
    }
    return begin == bytes.size();
  }

  /// A message that the peer cannot take ends both, if they are reliable.
  bool refuse(Pair& pair, Pair& peer, const Message& message, ibv_wc_status status) {
    const bool reliable = pair.base.qp_type == IBV_QPT_RC;
    complete_send(pair, message, reliable ? status : IBV_WC_SUCCESS);
    if (reliable) fail(pair);
    if (reliable) fail(peer);
    return true;
  }

  void count_tensors(const Pair& pair, const Message& message) {
    for (const Piece& piece : message.pieces) {
      const bool is_tensor =
          region(piece.key, pair.base.pd, piece.address, piece.length, IBV_ACCESS_REMOTE_WRITE) != nullptr;
      if (is_tensor) counts.bytes_from_tensors += piece.length;
    }
  }

  size_t packet_bytes() const { return static_cast<size_t>(behaviour.mtu); }

  /// Writes and completes. False: the message waits, because the peer has no receive posted, or the rest is to come.
  bool deliver(Pair& pair, const Message& message) {
    const bool reliable = pair.base.qp_type == IBV_QPT_RC;
    if (message.is_gone) {
      complete_send(pair, message, IBV_WC_SUCCESS);
      return true;
    }
    std::vector<uint8_t> bytes;
    if (!gather(pair, message, &bytes)) {
      complete_send(pair, message, IBV_WC_LOC_PROT_ERR);
      fail(pair);
      return true;
    }
    Pair* const peer = peer_of(pair);
    if (peer == nullptr || (reliable && behaviour.cut_off)) {
      complete_send(pair, message, reliable ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS);
      if (reliable) fail(pair);
      return true;
    }
    const bool takes_receive = message.opcode != IBV_WR_RDMA_WRITE;
    if (takes_receive && peer->begun.empty() && peer->receives().empty()) {
      if (reliable) return false;
      complete_send(pair, message, IBV_WC_SUCCESS);
      return true;
    }
    const bool begins = reliable && takes_receive && peer->begun.empty() && bytes.size() > packet_bytes();
    if (begins && chance(behaviour.half)) {
      peer->begun.push_back(std::move(peer->receives().front()));
      peer->receives().pop_front();
      return false;
    }
    if (!reliable && chance(behaviour.loss)) {
      complete_send(pair, message, IBV_WC_SUCCESS);
      return true;
    }
    const bool partial = !reliable && chance(behaviour.partial);
    const size_t written = partial ? bytes.size() / 2 : bytes.size();
    if (message.opcode == IBV_WR_SEND) {
      const Receive& receive = peer->begun.empty() ? peer->receives().front() : peer->begun.front();
      if (!scatter(*peer, receive, bytes, written)) {
        return refuse(pair, *peer, message, IBV_WC_REM_INV_REQ_ERR);
      }
    } else if (!bytes.empty()) {
      if (region(message.remote_key, peer->base.pd, message.remote, bytes.size(), IBV_ACCESS_REMOTE_WRITE) == nullptr) {
        return refuse(pair, *peer, message, IBV_WC_REM_ACCESS_ERR);
      }
      if (written > 0) std::memcpy(reinterpret_cast<void*>(message.remote), bytes.data(), written);
    }
    counts.bytes += written;
    if (message.opcode == IBV_WR_RDMA_WRITE) counts.bytes_to_tensors += written;
    count_tensors(pair, message);
    if (takes_receive && !partial) complete_receive(*peer, message, bytes.size(), IBV_WC_SUCCESS);
    complete_send(pair, message, IBV_WC_SUCCESS);
    if (!reliable && !message.is_copy && chance(behaviour.repeat)) {
      Message again = message;
      again.is_copy = true;
      again.taken = bytes;
      pair.sending.push_back(std::move(again));
    }
    return true;
  }

  /// The second goes first, as on the way. Sends are complete in their order all the same.
  void overtake(Pair& pair) {
    Message early = pair.sending[1];
    if (early.is_copy || early.is_gone || !gather(pair, early, &early.taken)) return;
    early.is_copy = true;
    pair.sending[1].is_gone = true;
    pair.sending.push_front(std::move(early));
  }

  /// What may go now. `all`: whatever it would like to wait for.
  void advance(Pair& pair, bool all) {
    while (!pair.sending.empty() && pair.base.state == IBV_QPS_RTS) {
      if (!all && chance(behaviour.late)) return;
      if (pair.base.qp_type != IBV_QPT_RC && pair.sending.size() > 1 && chance(behaviour.overtake)) overtake(pair);
      Message message = std::move(pair.sending.front());
      pair.sending.pop_front();
      if (deliver(pair, message)) continue;
      pair.sending.push_front(std::move(message));
      return;
    }
  }

  void advance(bool all) {
    if (behaviour.gone) return;
    for (const auto& [number, pair] : pairs) {
      if (!behaviour.never_flush && pair->polls_to_flush >= 0 && pair->polls_to_flush-- == 0) flush(*pair);
      advance(*pair, all);
    }
  }
};

/// All cards of the process; it ends with the library.
inline Fabric& fabric() {
  static Fabric the_fabric;
  return the_fabric;
}

using Lock = std::lock_guard<std::recursive_mutex>;

/// What a context's cards do with work requests: fake_work.cc.
void set_work_functions(ibv_context_ops* ops);

}  // namespace switchml::fake_verbs
