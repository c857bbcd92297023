// What programs ask of cards that are not there by pointers of a context: to post work requests, and to poll for their
// completions.
#include <infiniband/verbs.h>

#include <cerrno>
#include <deque>
#include <utility>

#include "fabric.h"

namespace switchml::fake_verbs {

namespace {

int poll_cq(ibv_cq* queue, int count, ibv_wc* completions) {
  Fabric& f = fabric();
  const Lock lock(f.mutex);
  if (f.behaviour.gone) return 0;
  if (f.failure("ibv_poll_cq") != 0) return -1;
  ++f.counts.polls;
  f.advance(false);
  Queue& q = *reinterpret_cast<Queue*>(queue);
  int taken = 0;
  while (taken < count && !q.completions.empty()) {
    ibv_wc& completion = completions[taken++];
    completion = q.completions.front();
    q.completions.pop_front();
    ++f.counts.completions;
    if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM || completion.opcode == IBV_WC_RECV) continue;
    const auto pair = f.pairs.find(completion.qp_num);
    if (pair != f.pairs.end()) pair->second->uncompleted -= completion.vendor_err;
    completion.vendor_err = 0;
  }
  return taken;
}

int req_notify_cq(ibv_cq* queue, int) {
  Fabric& f = fabric();
  const Lock lock(f.mutex);
  if (const int error = f.failure("ibv_req_notify_cq")) return error;
  f.advance(true);
  reinterpret_cast<Queue*>(queue)->armed = true;
  return 0;
}

int check_send(const Pair& pair, const ibv_send_wr& request) {
  if (request.num_sge > kMostPieces || static_cast<uint32_t>(request.num_sge) > pair.attributes.cap.max_send_sge) {
    return EINVAL;
  }
  size_t bytes = 0;
  for (int i = 0; i < request.num_sge; ++i) bytes += request.sg_list[i].length;
  const bool is_inline = (request.send_flags & IBV_SEND_INLINE) != 0;
  if (is_inline && bytes > pair.attributes.cap.max_inline_data) return EINVAL;
  const bool known = request.opcode == IBV_WR_SEND || request.opcode == IBV_WR_RDMA_WRITE ||
                     request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  if (!known) return EINVAL;
  return pair.uncompleted < pair.attributes.cap.max_send_wr ? 0 : ENOMEM;
}

Message message_of(const ibv_send_wr& request, bool signals_all) {
  Message message;
  message.id = request.wr_id;
  message.opcode = request.opcode;
  message.is_inline = (request.send_flags & IBV_SEND_INLINE) != 0;
  message.is_signaled = signals_all || (request.send_flags & IBV_SEND_SIGNALED) != 0;
  message.remote = request.wr.rdma.remote_addr;
  message.remote_key = request.wr.rdma.rkey;
  message.immediate = request.imm_data;
  for (int i = 0; i < request.num_sge; ++i) {
    const ibv_sge& piece = request.sg_list[i];
    const auto* const from = reinterpret_cast<const uint8_t*>(piece.addr);
    if (message.is_inline) {
      message.inlined.insert(message.inlined.end(), from, from + piece.length);
    } else {
      message.pieces.push_back({piece.addr, piece.length, piece.lkey});
    }
  }
  return message;
}

int post_send(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad) {
  Fabric& f = fabric();
  const Lock lock(f.mutex);
  Pair& pair = *reinterpret_cast<Pair*>(qp);
  ++f.counts.doorbells;
  for (; request != nullptr; request = request->next) {
    int error = f.failure("ibv_post_send");
    if (error == 0 && qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_ERR) error = EINVAL;
    if (error == 0) error = check_send(pair, *request);
    if (error != 0) {
      *bad = request;
      return error;
    }
    ++f.counts.messages;
    ++pair.uncompleted;
    Message message = message_of(*request, pair.attributes.sq_sig_all != 0);
    message.is_late = qp->state == IBV_QPS_ERR;
    if (message.is_late && pair.polls_to_flush < 0) {
      f.complete_send(pair, message, IBV_WC_WR_FLUSH_ERR);
    } else {
      pair.sending.push_back(std::move(message));
    }
  }
  f.advance(pair, false);
  return 0;
}

/// Up to `most` of them; what each call is named, for failures.
int add_receives(const char* function, ibv_recv_wr* request, ibv_recv_wr** bad, uint32_t most,
                 std::deque<Receive>* waiting) {
  Fabric& f = fabric();
  for (; request != nullptr; request = request->next) {
    int error = f.failure(function);
    if (error == 0 && waiting->size() >= most) error = ENOMEM;
    if (error != 0) {
      *bad = request;
      return error;
    }
    ++f.counts.receives;
    Receive receive{request->wr_id, {}};
    for (int i = 0; i < request->num_sge; ++i) {
      const ibv_sge& piece = request->sg_list[i];
      receive.pieces.push_back({piece.addr, piece.length, piece.lkey});
    }
    waiting->push_back(std::move(receive));
  }
  return 0;
}

int post_recv(ibv_qp* qp, ibv_recv_wr* request, ibv_recv_wr** bad) {
  Fabric& f = fabric();
  const Lock lock(f.mutex);
  Pair& pair = *reinterpret_cast<Pair*>(qp);
  if (qp->state == IBV_QPS_RESET || qp->srq != nullptr) {
    *bad = request;
    return EINVAL;
  }
  const int error = add_receives("ibv_post_recv", request, bad, pair.attributes.cap.max_recv_wr, &pair.own_receives);
  while (qp->state == IBV_QPS_ERR && !pair.own_receives.empty()) {
    f.complete_receive(pair, Message(), 0, IBV_WC_WR_FLUSH_ERR);
  }
  return error;
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* request, ibv_recv_wr** bad) {
  Fabric& f = fabric();
  const Lock lock(f.mutex);
  SharedReceives& shared = *reinterpret_cast<SharedReceives*>(srq);
  return add_receives("ibv_post_srq_recv", request, bad, shared.most, &shared.waiting);
}

}  // namespace

void set_work_functions(ibv_context_ops* ops) {
  ops->poll_cq = poll_cq;
  ops->req_notify_cq = req_notify_cq;
  ops->post_send = post_send;
  ops->post_recv = post_recv;
  ops->post_srq_recv = post_srq_recv;
}

}  // namespace switchml::fake_verbs
