#include "transport/rdma/verbs.h"

#include <dlfcn.h>

#include <atomic>
#include <cerrno>
#include <system_error>

#include "base/log.h"

namespace switchml::rdma {

namespace {

Status error(Code code, const std::string& function, int number, const std::string& remedy = "") {
  return {code, function + ": " + std::system_category().message(number) + (remedy.empty() ? "" : ": " + remedy)};
}

/// The status of a function that sets errno.
Status failure(const std::string& function, const std::string& remedy = "") {
  return error(Code::kUnavailable, function, errno, remedy);
}

constexpr const char* kMemlock =
    "raise the limit of locked memory (ulimit -l, LimitMEMLOCK=, or the capability "
    "IPC_LOCK of a container)";

// The vendor that the kernel's rdma_rxe gives itself (drivers/infiniband/sw/rxe/rxe_param.h).
constexpr uint32_t kSoftRoce = 0xffffff;

/// Takes functions from a library, and notes the first that it lacks.
class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}
  template <typename F>
  void take(const char* name, F* function) {
    *function = reinterpret_cast<F>(::dlsym(library_, name));
    if (*function == nullptr && missing_.empty()) missing_ = name;
  }
  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

std::string take_all(void* library, VerbsFunctions* functions) {
  Symbols symbols(library);
  VerbsFunctions& f = *functions;
  symbols.take("ibv_get_device_list", &f.get_device_list);
  symbols.take("ibv_free_device_list", &f.free_device_list);
  symbols.take("ibv_get_device_name", &f.get_device_name);
  symbols.take("ibv_open_device", &f.open_device);
  symbols.take("ibv_close_device", &f.close_device);
  symbols.take("ibv_query_port", &f.query_port);
  symbols.take("ibv_query_device", &f.query_device);
  symbols.take("_ibv_query_gid_table", &f.query_gid_table);
  symbols.take("ibv_alloc_pd", &f.alloc_pd);
  symbols.take("ibv_dealloc_pd", &f.dealloc_pd);
  symbols.take("ibv_reg_mr", &f.reg_mr);
  symbols.take("ibv_dereg_mr", &f.dereg_mr);
  symbols.take("ibv_create_comp_channel", &f.create_comp_channel);
  symbols.take("ibv_destroy_comp_channel", &f.destroy_comp_channel);
  symbols.take("ibv_create_cq", &f.create_cq);
  symbols.take("ibv_destroy_cq", &f.destroy_cq);
  symbols.take("ibv_get_cq_event", &f.get_cq_event);
  symbols.take("ibv_ack_cq_events", &f.ack_cq_events);
  symbols.take("ibv_get_async_event", &f.get_async_event);
  symbols.take("ibv_ack_async_event", &f.ack_async_event);
  symbols.take("ibv_event_type_str", &f.event_type_str);
  symbols.take("ibv_create_srq", &f.create_srq);
  symbols.take("ibv_destroy_srq", &f.destroy_srq);
  symbols.take("ibv_create_qp", &f.create_qp);
  symbols.take("ibv_modify_qp", &f.modify_qp);
  symbols.take("ibv_destroy_qp", &f.destroy_qp);
  symbols.take("ibv_fork_init", &f.fork_init);
  symbols.take("ibv_wc_status_str", &f.wc_status_str);
  return symbols.missing();
}

}  // namespace

void log_close(const char* function, int number) {
  static std::atomic<bool> told{false};  // a device that is gone answers so for each of a thousand regions
  const std::string what = error(Code::kUnavailable, function, number < 0 ? errno : number).message();
  if (told.exchange(true)) {
    SWITCHML_LOG(kDebug) << what;
  } else {
    SWITCHML_LOG(kWarning) << what << ": what the card still held is given up. Is the device gone?";
  }
}

// Once loaded it stays, with what it holds for the process. The library is not closed while anything of it is left.
Result<Verbs> Verbs::load(const std::string& library) {
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* const why = ::dlerror();
    return Status(Code::kUnsupported, std::string("libibverbs cannot be loaded (") + (why ? why : "no reason given") +
                                          "): install libibverbs1 and ibverbs-providers");
  }
  const auto closing = [handle](VerbsFunctions* functions) {
    delete functions;
    ::dlclose(handle);
  };
  std::shared_ptr<VerbsFunctions> functions(new VerbsFunctions, closing);
  const std::string missing = take_all(handle, functions.get());
  if (!missing.empty()) {
    return Status(Code::kUnsupported, library + " has no " + missing + "(): it is older than rdma-core 32");
  }
  // It does nothing where the kernel copies registered pages for a child by itself, from 5.12 on.
  if (const int number = functions->fork_init(); number != 0) {
    SWITCHML_LOG(kInfo) << error(Code::kUnavailable, "ibv_fork_init", number).message()
                        << ": a forked child may take pages away that a card writes to";
  }
  return Verbs(std::move(functions));
}

Result<std::vector<std::string>> Verbs::devices() const {
  int count = 0;
  ibv_device** const list = functions_->get_device_list(&count);
  if (list == nullptr) {
    const char* hint =
        "this host has no RDMA (SWITCHML_TRANSPORT=auto needs none), or is the kernel's module ib_uverbs not loaded?";
    return error(Code::kUnsupported, "ibv_get_device_list", errno, hint);
  }
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) names.emplace_back(functions_->get_device_name(list[i]));
  functions_->free_device_list(list);
  return names;
}

Result<Owned<ibv_context>> Verbs::open(const std::string& device) const {
  int count = 0;
  ibv_device** const list = functions_->get_device_list(&count);
  if (list == nullptr) return error(Code::kUnsupported, "ibv_get_device_list", errno);
  ibv_context* context = nullptr;
  int number = ENODEV;
  for (int i = 0; i < count && context == nullptr; ++i) {
    if (functions_->get_device_name(list[i]) != device) continue;
    context = functions_->open_device(list[i]);  // null and, of most providers, errno
    number = errno;
  }
  functions_->free_device_list(list);
  if (context == nullptr) {
    return error(Code::kUnavailable, "ibv_open_device(" + device + ")", number,
                 "may this process open /dev/infiniband/uverbs*?");
  }
  close_on_fork(context->cmd_fd);
  close_on_fork(context->async_fd);
  return own(context, &VerbsFunctions::close_device, "ibv_close_device");
}

Result<DeviceFacts> Verbs::query(ibv_context* context) const {
  ibv_device_attr attributes{};
  if (const int number = functions_->query_device(context, &attributes); number != 0) {
    return error(Code::kUnavailable, "ibv_query_device", number);
  }
  DeviceFacts facts;
  facts.max_queue_entries = attributes.max_qp_wr;
  facts.max_completions = attributes.max_cqe;
  facts.max_pieces = attributes.max_sge;
  facts.max_shared = attributes.max_srq_wr;
  facts.ports = attributes.phys_port_cnt;
  facts.is_emulated = attributes.vendor_id == kSoftRoce;
  return facts;
}

Result<PortFacts> Verbs::query_port(ibv_context* context, uint8_t port) const {
  ibv_port_attr attributes{};
  auto* const compatible = reinterpret_cast<_compat_ibv_port_attr*>(&attributes);  // as verbs.h does
  if (const int number = functions_->query_port(context, port, compatible); number != 0) {
    return error(Code::kUnavailable, "ibv_query_port", number);
  }
  PortFacts facts;
  facts.is_active = attributes.state == IBV_PORT_ACTIVE;
  facts.is_ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
  facts.mtu = attributes.active_mtu;
  return facts;
}

Result<std::vector<ibv_gid_entry>> Verbs::gids(ibv_context* context) const {
  std::vector<ibv_gid_entry> entries(256);
  for (;;) {
    const ssize_t count = functions_->query_gid_table(context, entries.data(), entries.size(), 0, sizeof entries[0]);
    if (count == -EINVAL && entries.size() < 65536) {  // there are more
      entries.resize(2 * entries.size());
      continue;
    }
    if (count < 0) return error(Code::kUnavailable, "ibv_query_gid_table", static_cast<int>(-count));
    entries.resize(static_cast<size_t>(count));
    return entries;
  }
}

Result<Owned<ibv_pd>> Verbs::protection_domain(ibv_context* context) const {
  ibv_pd* const domain = functions_->alloc_pd(context);
  if (domain == nullptr) return failure("ibv_alloc_pd");
  return own(domain, &VerbsFunctions::dealloc_pd, "ibv_dealloc_pd");
}

Result<Owned<ibv_mr>> Verbs::memory_region(ibv_pd* domain, void* data, size_t bytes, int access) const {
  ibv_mr* const region = functions_->reg_mr(domain, data, bytes, access);
  if (region == nullptr) {
    return failure("ibv_reg_mr of " + std::to_string(bytes) + " bytes", errno == ENOMEM ? kMemlock : "");
  }
  return own(region, &VerbsFunctions::dereg_mr, "ibv_dereg_mr");
}

Result<Owned<ibv_comp_channel>> Verbs::completion_channel(ibv_context* context) const {
  ibv_comp_channel* const channel = functions_->create_comp_channel(context);
  if (channel == nullptr) return failure("ibv_create_comp_channel");
  close_on_fork(channel->fd);
  return own(channel, &VerbsFunctions::destroy_comp_channel, "ibv_destroy_comp_channel");
}

Result<Owned<ibv_cq>> Verbs::completion_queue(ibv_context* context, int entries, ibv_comp_channel* channel) const {
  ibv_cq* const queue = functions_->create_cq(context, entries, nullptr, channel, 0);
  if (queue == nullptr) {
    return failure("ibv_create_cq of " + std::to_string(entries) + " entries", errno == ENOMEM ? kMemlock : "");
  }
  return own(queue, &VerbsFunctions::destroy_cq, "ibv_destroy_cq");
}

Result<Owned<ibv_srq>> Verbs::shared_receives(ibv_pd* domain, int receives) const {
  ibv_srq_init_attr attributes{};
  attributes.attr.max_wr = static_cast<uint32_t>(receives);
  attributes.attr.max_sge = 1;
  ibv_srq* const shared = functions_->create_srq(domain, &attributes);
  if (shared == nullptr) return failure("ibv_create_srq", errno == ENOMEM ? kMemlock : "");
  return own(shared, &VerbsFunctions::destroy_srq, "ibv_destroy_srq");
}

Result<Owned<ibv_qp>> Verbs::queue_pair(ibv_pd* domain, ibv_qp_init_attr attributes) const {
  ibv_qp* const pair = functions_->create_qp(domain, &attributes);
  if (pair == nullptr) return failure("ibv_create_qp", errno == ENOMEM ? kMemlock : "");
  return own(pair, &VerbsFunctions::destroy_qp, "ibv_destroy_qp");
}

Status Verbs::modify(ibv_qp* pair, ibv_qp_attr attributes, int mask, const char* what) const {
  const int number = functions_->modify_qp(pair, &attributes, mask);
  return number == 0 ? Status() : error(Code::kUnavailable, std::string("ibv_modify_qp (") + what + ")", number);
}

Result<bool> Verbs::take_event(ibv_comp_channel* channel) const {
  ibv_cq* queue = nullptr;
  void* unused = nullptr;
  if (functions_->get_cq_event(channel, &queue, &unused) != 0) {
    if (errno == EAGAIN || errno == EINTR) return false;
    return failure("ibv_get_cq_event");
  }
  functions_->ack_cq_events(queue, 1);
  return true;
}

Result<bool> Verbs::take_async_event(ibv_context* context, ibv_async_event* event) const {
  if (functions_->get_async_event(context, event) != 0) {
    if (errno == EAGAIN || errno == EINTR) return false;
    return failure("ibv_get_async_event");
  }
  functions_->ack_async_event(event);
  return true;
}

}  // namespace switchml::rdma
