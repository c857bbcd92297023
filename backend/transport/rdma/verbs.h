// libibverbs, found when it is wanted: a host without RDMA needs no such library. Each function's return value is read
// as its manual page says: some return null and set errno, some return the error, some return -1 and set errno.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "socket/close_on_fork.h"

namespace switchml::rdma {

/// Those of the library's functions that are symbols. What else verbs.h declares goes through a context.
struct VerbsFunctions {
  decltype(&::ibv_get_device_list) get_device_list;
  decltype(&::ibv_free_device_list) free_device_list;
  decltype(&::ibv_get_device_name) get_device_name;
  decltype(&::ibv_open_device) open_device;
  decltype(&::ibv_close_device) close_device;
  decltype(&::ibv_query_port) query_port;
  decltype(&::ibv_query_device) query_device;
  decltype(&::_ibv_query_gid_table) query_gid_table;
  decltype(&::ibv_alloc_pd) alloc_pd;
  decltype(&::ibv_dealloc_pd) dealloc_pd;
  decltype(&::ibv_reg_mr) reg_mr;
  decltype(&::ibv_dereg_mr) dereg_mr;
  decltype(&::ibv_create_comp_channel) create_comp_channel;
  decltype(&::ibv_destroy_comp_channel) destroy_comp_channel;
  decltype(&::ibv_create_cq) create_cq;
  decltype(&::ibv_destroy_cq) destroy_cq;
  decltype(&::ibv_get_cq_event) get_cq_event;
  decltype(&::ibv_ack_cq_events) ack_cq_events;
  decltype(&::ibv_get_async_event) get_async_event;
  decltype(&::ibv_ack_async_event) ack_async_event;
  decltype(&::ibv_event_type_str) event_type_str;
  decltype(&::ibv_create_srq) create_srq;
  decltype(&::ibv_destroy_srq) destroy_srq;
  decltype(&::ibv_create_qp) create_qp;
  decltype(&::ibv_modify_qp) modify_qp;
  decltype(&::ibv_destroy_qp) destroy_qp;
  decltype(&::ibv_fork_init) fork_init;
  decltype(&::ibv_wc_status_str) wc_status_str;
};

// A child that is forked must not keep queue pairs alive that its parent has left.
inline void keep_on_fork(const ibv_context& context) {
  switchml::keep_on_fork(context.cmd_fd);
  switchml::keep_on_fork(context.async_fd);
}
inline void keep_on_fork(const ibv_comp_channel& channel) { switchml::keep_on_fork(channel.fd); }
template <typename T>
void keep_on_fork(const T& /*has none*/) {}

/// Says so. A device that is gone answers so; its kernel has let go of all that was made with it.
void log_close(const char* function, int number);

/// Owns an object of the library, and keeps the library as long.
template <typename T>
struct Closer {
  std::shared_ptr<const VerbsFunctions> verbs;
  int (*VerbsFunctions::*close)(T*) = nullptr;
  const char* function = "";
  void operator()(T* object) const {
    keep_on_fork(*object);
    if (const int number = ((*verbs).*close)(object); number != 0) log_close(function, number);
  }
};
template <typename T>
using Owned = std::unique_ptr<T, Closer<T>>;

/// The object that was made, or why it was not.
template <typename T>
Status keep(Result<Owned<T>> made, Owned<T>* to) {
  if (!made.ok()) return made.status();
  *to = std::move(made.value());
  return {};
}

/// What a card and its port can do, as far as it matters here.
struct PortFacts {
  bool is_active = false;
  bool is_ethernet = false;
  ibv_mtu mtu = IBV_MTU_256;  // the active MTU
};
struct DeviceFacts {
  int max_queue_entries = 0;  // per queue pair
  int max_completions = 0;    // per completion queue
  int max_pieces = 0;         // per message
  int max_shared = 0;         // receives that pairs share
  int ports = 0;
  bool is_emulated = false;  // the kernel emulates it, over any Ethernet card
};

/// Thread-safe, as libibverbs is. Errors name the function, and the remedy where there is one.
class Verbs {
 public:
  /// `library`: as dlopen() takes it. kUnsupported where it, or a function of it, is missing.
  static Result<Verbs> load(const std::string& library = "libibverbs.so.1");

  /// The names of the devices of this host; none is no error. kUnsupported: the kernel has no RDMA.
  Result<std::vector<std::string>> devices() const;
  Result<Owned<ibv_context>> open(const std::string& device) const;
  Result<DeviceFacts> query(ibv_context* context) const;
  Result<PortFacts> query_port(ibv_context* context, uint8_t port) const;
  /// All addresses of all ports.
  Result<std::vector<ibv_gid_entry>> gids(ibv_context* context) const;

  Result<Owned<ibv_pd>> protection_domain(ibv_context* context) const;
  /// `access`: of IBV_ACCESS_*. The memory is pinned as long as the region lives.
  Result<Owned<ibv_mr>> memory_region(ibv_pd* domain, void* data, size_t bytes, int access) const;
  Result<Owned<ibv_comp_channel>> completion_channel(ibv_context* context) const;
  /// `channel` may be null.
  Result<Owned<ibv_cq>> completion_queue(ibv_context* context, int entries, ibv_comp_channel* channel) const;
  /// Receives of one piece each, for all queue pairs that are made with it.
  Result<Owned<ibv_srq>> shared_receives(ibv_pd* domain, int receives) const;
  Result<Owned<ibv_qp>> queue_pair(ibv_pd* domain, ibv_qp_init_attr attributes) const;
  /// `what`: for an error, what becomes of the queue pair.
  Status modify(ibv_qp* pair, ibv_qp_attr attributes, int mask, const char* what) const;
  /// Takes one event off the channel; false: none is there. The channel does not block.
  Result<bool> take_event(ibv_comp_channel* channel) const;
  /// The same of what the card tells unasked. Its element lives until it is destroyed.
  Result<bool> take_async_event(ibv_context* context, ibv_async_event* event) const;
  const char* text_of(ibv_wc_status status) const { return functions_->wc_status_str(status); }
  const char* text_of(ibv_event_type type) const { return functions_->event_type_str(type); }

 private:
  explicit Verbs(std::shared_ptr<const VerbsFunctions> functions) : functions_(std::move(functions)) {}
  template <typename T>
  Owned<T> own(T* object, int (*VerbsFunctions::*close)(T*), const char* function) const {
    return Owned<T>(object, Closer<T>{functions_, close, function});
  }

  std::shared_ptr<const VerbsFunctions> functions_;  // ends with the library
};

}  // namespace switchml::rdma
