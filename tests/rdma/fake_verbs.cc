#include "fake_verbs.h"

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "fabric.h"

namespace switchml::fake_verbs {

namespace {

constexpr int kDevices = 2;

/// Whether the function fails, and has set errno: as a test asks for, or since its arguments are not allowed.
bool refuses(const char* function, bool allowed = true) {
  int error = fabric().failure(function);
  if (error == 0 && !allowed) error = EINVAL;
  if (error != 0) errno = error;
  return error != 0;
}

/// A new object, or null and errno.
template <typename T>
T* make(const char* function, bool allowed = true) {
  if (refuses(function, allowed)) return nullptr;
  ++fabric().counts.objects;
  return new T{};
}

template <typename T>
int end(const char* function, T* object) {
  --fabric().counts.objects;
  delete object;
  return fabric().failure(function);
}

ibv_device* devices() {
  static std::array<ibv_device, kDevices> all = [] {
    std::array<ibv_device, kDevices> made{};
    for (size_t i = 0; i < made.size(); ++i) {
      std::snprintf(made[i].name, sizeof made[i].name, "fake%d", static_cast<int>(i));
      made[i].node_type = IBV_NODE_CA;
      made[i].transport_type = IBV_TRANSPORT_IB;
    }
    return made;
  }();
  return all.data();
}

ibv_gid loopback(bool mapped) {
  ibv_gid gid{};
  if (mapped) gid.raw[10] = gid.raw[11] = 0xff;
  gid.raw[12] = mapped ? 127 : 0;
  gid.raw[15] = 1;
  return gid;
}

/// What each step must say, of pairs that are connected.
int needed(ibv_qp_state to, bool reliable) {
  switch (to) {
    case IBV_QPS_INIT: return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    case IBV_QPS_RTR:
      return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
             (reliable ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
    case IBV_QPS_RTS:
      return IBV_QP_STATE | IBV_QP_SQ_PSN |
             (reliable ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0);
    default: return IBV_QP_STATE;
  }
}

bool may_follow(ibv_qp_state from, ibv_qp_state to) {
  return to == IBV_QPS_RESET || to == IBV_QPS_ERR || (from == IBV_QPS_RESET && to == IBV_QPS_INIT) ||
         (from == IBV_QPS_INIT && to == IBV_QPS_RTR) || (from == IBV_QPS_RTR && to == IBV_QPS_RTS);
}

}  // namespace

}  // namespace switchml::fake_verbs

using namespace switchml::fake_verbs;

#define FAKE_VERBS __attribute__((visibility("default")))

extern "C" {

FAKE_VERBS void fake_verbs_configure(const Behaviour& behaviour) {
  Fabric& f = fabric();
  const Lock lock(f.mutex);
  const uint64_t objects = f.counts.objects;
  f.behaviour = behaviour;
  f.random.seed(behaviour.seed);
  f.failures.clear();
  f.counts = {};
  f.counts.objects = objects;
}

FAKE_VERBS void fake_verbs_fail_once(const char* function, int error, int after) {
  Fabric& f = fabric();
  const Lock lock(f.mutex);
  f.failures[function] = {error, after};
}

FAKE_VERBS void fake_verbs_break(uint32_t qp_num) {
  Fabric& f = fabric();
  const Lock lock(f.mutex);
  for (const auto& [number, pair] : f.pairs) {
    if (qp_num == 0 || number == qp_num) f.fail(*pair);
  }
}

FAKE_VERBS void fake_verbs_tell(int type) {
  Fabric& f = fabric();
  const Lock lock(f.mutex);
  ibv_async_event event{};
  event.event_type = static_cast<ibv_event_type>(type);
  if (!Fabric::is_of_pair(event.event_type)) {
    for (ibv_context* const context : f.contexts) Fabric::tell(context, event);
    return;
  }
  for (const auto& [number, pair] : f.pairs) {
    event.element.qp = &pair->base;
    Fabric::tell(pair->base.context, event);
  }
}

FAKE_VERBS void fake_verbs_count(Counts* counts) {
  Fabric& f = fabric();
  const Lock lock(f.mutex);
  *counts = f.counts;
}

#undef ibv_get_device_list
FAKE_VERBS ibv_device** ibv_get_device_list(int* count) {
  const Lock lock(fabric().mutex);
  if (refuses("ibv_get_device_list")) return nullptr;
  auto** const list = new ibv_device*[kDevices + 1]();
  for (int i = 0; i < kDevices; ++i) list[i] = devices() + i;
  if (count != nullptr) *count = kDevices;
  return list;
}

FAKE_VERBS void ibv_free_device_list(ibv_device** list) { delete[] list; }

FAKE_VERBS const char* ibv_get_device_name(ibv_device* device) { return device->name; }

FAKE_VERBS ibv_context* ibv_open_device(ibv_device* device) {
  Fabric& f = fabric();
  const Lock lock(f.mutex);
  auto* const made = make<Context>("ibv_open_device");
  if (made == nullptr) return nullptr;
  ibv_context* const context = &made->base;
  context->device = device;
  set_work_functions(&context->ops);
  context->num_comp_vectors = 1;
  context->cmd_fd = ::eventfd(0, EFD_CLOEXEC);
  context->async_fd = ::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  f.contexts.insert(context);
  return context;
}

FAKE_VERBS int ibv_close_device(ibv_context* context) {
  const Lock lock(fabric().mutex);
  fabric().contexts.erase(context);
  ::close(context->cmd_fd);
  ::close(context->async_fd);
  return end("ibv_close_device", reinterpret_cast<Context*>(context));
}

FAKE_VERBS int ibv_query_device(ibv_context*, ibv_device_attr* attributes) {
  const Lock lock(fabric().mutex);
  if (const int error = fabric().failure("ibv_query_device")) return error;
  *attributes = {};
  attributes->max_qp_wr = static_cast<int>(kMostRequests);
  attributes->max_cqe = kMostCompletions;
  attributes->max_sge = kMostPieces;
  attributes->max_srq_wr = static_cast<int>(kMostRequests);
  attributes->phys_port_cnt = 1;
  attributes->vendor_id = fabric().behaviour.emulated ? 0xffffff : 0x2c9;
  return 0;
}

#undef ibv_query_port
FAKE_VERBS int ibv_query_port(ibv_context*, uint8_t port, _compat_ibv_port_attr* compatible) {
  const Lock lock(fabric().mutex);
  if (const int error = fabric().failure("ibv_query_port")) return error;
  if (port != 1) return EINVAL;
  auto& attributes = *reinterpret_cast<ibv_port_attr*>(compatible);
  attributes.state = IBV_PORT_ACTIVE;
  attributes.link_layer = IBV_LINK_LAYER_ETHERNET;
  attributes.active_mtu = IBV_MTU_256;
  for (int mtu = fabric().behaviour.mtu; mtu > 256; mtu /= 2) {
    attributes.active_mtu = static_cast<ibv_mtu>(attributes.active_mtu + 1);
  }
  attributes.max_mtu = attributes.active_mtu;
  attributes.gid_tbl_len = 3;
  return 0;
}

FAKE_VERBS ssize_t _ibv_query_gid_table(ibv_context*, ibv_gid_entry* entries, size_t most, uint32_t, size_t) {
  const Lock lock(fabric().mutex);
  if (const int error = fabric().failure("ibv_query_gid_table")) return -error;
  if (most < 3) return -EINVAL;
  const uint32_t interface = ::if_nametoindex("lo");
  entries[0] = {loopback(true), 0, 1, IBV_GID_TYPE_ROCE_V1, interface};
  entries[1] = {loopback(true), 1, 1, IBV_GID_TYPE_ROCE_V2, interface};
  entries[2] = {loopback(false), 2, 1, IBV_GID_TYPE_ROCE_V2, interface};
  return 3;
}

FAKE_VERBS ibv_pd* ibv_alloc_pd(ibv_context* context) {
  const Lock lock(fabric().mutex);
  auto* const domain = make<ibv_pd>("ibv_alloc_pd");
  if (domain != nullptr) domain->context = context;
  return domain;
}

FAKE_VERBS int ibv_dealloc_pd(ibv_pd* domain) {
  Fabric& f = fabric();
  const Lock lock(f.mutex);
  for (const auto& [key, region] : f.regions) {
    if (region->base.pd == domain) return EBUSY;
  }
  for (const auto& [number, pair] : f.pairs) {
    if (pair->base.pd == domain) return EBUSY;
  }
  return end("ibv_dealloc_pd", domain);
}

#undef ibv_reg_mr
FAKE_VERBS ibv_mr* ibv_reg_mr(ibv_pd* domain, void* data, size_t bytes, int access) {
  Fabric& f = fabric();
  const Lock lock(f.mutex);
  if (f.behaviour.no_memory_rights) {
    errno = ENOMEM;
    return nullptr;
  }
  auto* const region = make<Region>("ibv_reg_mr", bytes > 0);
  if (region == nullptr) return nullptr;
  region->base.context = domain->context;
  region->base.pd = domain;
  region->base.addr = data;
  region->base.length = bytes;
  region->base.lkey = region->base.rkey = f.next_key += 0x101;
  region->access = access;
  f.regions[region->base.rkey] = region;
  return &region->base;
}

FAKE_VERBS int ibv_dereg_mr(ibv_mr* mr) {
  Fabric& f = fabric();
  const Lock lock(f.mutex);
  f.regions.erase(mr->rkey);
  return end("ibv_dereg_mr", reinterpret_cast<Region*>(mr));
}

FAKE_VERBS ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  const Lock lock(fabric().mutex);
  auto* const channel = make<Channel>("ibv_create_comp_channel");
  if (channel == nullptr) return nullptr;
  channel->base.context = context;
  channel->base.fd = ::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  return &channel->base;
}

FAKE_VERBS int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  const Lock lock(fabric().mutex);
  if (channel->refcnt != 0) return EBUSY;
  ::close(channel->fd);
  return end("ibv_destroy_comp_channel", reinterpret_cast<Channel*>(channel));
}

FAKE_VERBS ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* own, ibv_comp_channel* channel, int) {
  const Lock lock(fabric().mutex);
  auto* const queue = make<Queue>("ibv_create_cq", entries >= 1 && entries <= kMostCompletions);
  if (queue == nullptr) return nullptr;
  queue->base.context = context;
  queue->base.channel = channel;
  queue->base.cq_context = own;
  queue->base.cqe = entries;
  if (channel != nullptr) ++channel->refcnt;
  return &queue->base;
}

FAKE_VERBS int ibv_destroy_cq(ibv_cq* cq) {
  const Lock lock(fabric().mutex);
  auto* const queue = reinterpret_cast<Queue*>(cq);
  if (queue->pairs != 0) return EBUSY;
  if (cq->channel != nullptr) {
    --cq->channel->refcnt;
    auto& events = reinterpret_cast<Channel*>(cq->channel)->events;
    const auto waiting = std::count(events.begin(), events.end(), cq);
    if (queue->unacknowledged > waiting) broken_rule("a completion queue ends whose events are not acknowledged");
    events.erase(std::remove(events.begin(), events.end(), cq), events.end());
  }
  return end("ibv_destroy_cq", queue);
}

FAKE_VERBS int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** queue, void** own) {
  if (refuses("ibv_get_cq_event")) return -1;
  uint64_t one = 0;
  if (::read(channel->fd, &one, sizeof one) != sizeof one) return -1;
  const Lock lock(fabric().mutex);
  auto& events = reinterpret_cast<Channel*>(channel)->events;
  if (events.empty()) {
    errno = EAGAIN;
    return -1;
  }
  *queue = events.front();
  *own = (*queue)->cq_context;
  events.pop_front();
  return 0;
}

FAKE_VERBS void ibv_ack_cq_events(ibv_cq* queue, unsigned int count) {
  const Lock lock(fabric().mutex);
  reinterpret_cast<Queue*>(queue)->unacknowledged -= static_cast<int>(count);
}

FAKE_VERBS int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  const Lock lock(fabric().mutex);
  auto& events = reinterpret_cast<Context*>(context)->events;
  if (events.empty() && refuses("ibv_get_async_event")) return -1;
  uint64_t one = 0;
  if (::read(context->async_fd, &one, sizeof one) != sizeof one) return -1;
  if (events.empty()) {
    errno = EAGAIN;
    return -1;
  }
  *event = events.front();
  events.pop_front();
  if (Fabric::is_of_pair(event->event_type)) ++reinterpret_cast<Pair*>(event->element.qp)->unacknowledged;
  return 0;
}

FAKE_VERBS void ibv_ack_async_event(ibv_async_event* event) {
  const Lock lock(fabric().mutex);
  if (Fabric::is_of_pair(event->event_type)) --reinterpret_cast<Pair*>(event->element.qp)->unacknowledged;
}

FAKE_VERBS ibv_srq* ibv_create_srq(ibv_pd* domain, ibv_srq_init_attr* attributes) {
  const Lock lock(fabric().mutex);
  const ibv_srq_attr& asked = attributes->attr;
  const bool allowed = asked.max_wr <= kMostRequests && asked.max_sge <= static_cast<uint32_t>(kMostPieces);
  auto* const shared = make<SharedReceives>("ibv_create_srq", allowed);
  if (shared == nullptr) return nullptr;
  shared->base.context = domain->context;
  shared->base.pd = domain;
  shared->most = asked.max_wr;
  return &shared->base;
}

FAKE_VERBS int ibv_destroy_srq(ibv_srq* srq) {
  const Lock lock(fabric().mutex);
  auto* const shared = reinterpret_cast<SharedReceives*>(srq);
  if (shared->pairs != 0) return EBUSY;
  return end("ibv_destroy_srq", shared);
}

FAKE_VERBS ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) {
  Fabric& f = fabric();
  const Lock lock(f.mutex);
  const ibv_qp_cap& cap = attributes->cap;
  const bool allowed = cap.max_send_wr <= kMostRequests && cap.max_recv_wr <= kMostRequests &&
                       cap.max_send_sge <= kMostPieces &&
                       cap.max_inline_data <= static_cast<uint32_t>(f.behaviour.max_inline) &&
                       (attributes->qp_type == IBV_QPT_RC || attributes->qp_type == IBV_QPT_UC);
  auto* const pair = make<Pair>("ibv_create_qp", allowed);
  if (pair == nullptr) return nullptr;
  pair->attributes = *attributes;
  pair->base.context = domain->context;
  pair->base.qp_context = attributes->qp_context;
  pair->base.pd = domain;
  pair->base.send_cq = attributes->send_cq;
  pair->base.recv_cq = attributes->recv_cq;
  pair->base.srq = attributes->srq;
  if (attributes->srq != nullptr) ++reinterpret_cast<SharedReceives*>(attributes->srq)->pairs;
  pair->base.qp_type = attributes->qp_type;
  pair->base.qp_num = f.next_pair += 3;
  pair->base.state = IBV_QPS_RESET;
  ++reinterpret_cast<Queue*>(attributes->send_cq)->pairs;
  ++reinterpret_cast<Queue*>(attributes->recv_cq)->pairs;
  f.pairs[pair->base.qp_num] = pair;
  return &pair->base;
}

FAKE_VERBS int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  Fabric& f = fabric();
  const Lock lock(f.mutex);
  if (const int error = f.failure("ibv_modify_qp")) return error;
  Pair& pair = *reinterpret_cast<Pair*>(qp);
  if ((mask & IBV_QP_STATE) == 0) return EINVAL;
  const ibv_qp_state to = attributes->qp_state;
  const int wanted = needed(to, qp->qp_type == IBV_QPT_RC);
  if (!may_follow(qp->state, to) || (mask & wanted) != wanted) return EINVAL;
  if (to == IBV_QPS_ERR) {
    f.fail(pair);
    return 0;
  }
  if (to == IBV_QPS_RTR) {
    if (f.behaviour.no_connection) return ENETUNREACH;
    if (attributes->ah_attr.is_global == 0 || attributes->path_mtu > IBV_MTU_4096) return EINVAL;
    pair.peer = attributes->dest_qp_num;
    pair.peer_gid = attributes->ah_attr.grh.dgid;
    f.counts.traffic_class = attributes->ah_attr.grh.traffic_class;
    f.counts.service_level = attributes->ah_attr.sl;
  }
  const bool retries = (mask & IBV_QP_RETRY_CNT) != 0;
  if (retries && attributes->retry_cnt > 6) broken_rule("Soft-RoCE repeats without end what is to be repeated 7 times");
  if (to == IBV_QPS_RESET) {
    pair.sending.clear();
    pair.own_receives.clear();
    pair.uncompleted = pair.unsignaled = 0;
  }
  qp->state = to;
  return 0;
}

FAKE_VERBS int ibv_destroy_qp(ibv_qp* qp) {
  Fabric& f = fabric();
  const Lock lock(f.mutex);
  auto* const pair = reinterpret_cast<Pair*>(qp);
  f.pairs.erase(qp->qp_num);
  for (ibv_cq* cq : {qp->send_cq, qp->recv_cq}) {
    auto* const queue = reinterpret_cast<Queue*>(cq);
    --queue->pairs;
    if (f.behaviour.keeps_completions) continue;
    auto& completions = queue->completions;
    const auto is_its = [qp](const ibv_wc& completion) { return completion.qp_num == qp->qp_num; };
    if (qp->srq != nullptr && cq == qp->recv_cq) {
      f.counts.lost_receives += static_cast<uint64_t>(std::count_if(completions.begin(), completions.end(), is_its));
    }
    completions.erase(std::remove_if(completions.begin(), completions.end(), is_its), completions.end());
  }
  if (qp->srq != nullptr) --reinterpret_cast<SharedReceives*>(qp->srq)->pairs;
  if (pair->unacknowledged != 0) broken_rule("a pair ends while an event is not acknowledged");
  auto& events = reinterpret_cast<Context*>(qp->context)->events;
  const auto tells_of_it = [qp](const ibv_async_event& event) { return event.element.qp == qp; };
  events.erase(std::remove_if(events.begin(), events.end(), tells_of_it), events.end());
  f.counts.lost_receives += pair->begun.size();
  return end("ibv_destroy_qp", pair);
}

FAKE_VERBS int ibv_fork_init() { return fabric().failure("ibv_fork_init"); }

FAKE_VERBS const char* ibv_event_type_str(ibv_event_type type) {
  return type == IBV_EVENT_DEVICE_FATAL ? "local catastrophic error" : "another event";
}

FAKE_VERBS const char* ibv_wc_status_str(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS: return "success";
    case IBV_WC_LOC_PROT_ERR: return "local protection error";
    case IBV_WC_WR_FLUSH_ERR: return "Work Request Flushed Error";
    case IBV_WC_REM_ACCESS_ERR: return "remote access error";
    case IBV_WC_REM_INV_REQ_ERR: return "remote invalid request error";
    case IBV_WC_RETRY_EXC_ERR: return "transport retry counter exceeded";
    default: return "unknown";
  }
}

}  // extern "C"
