// The Python module switchml._C. Everything for people is in python/switchml; this is the least that it needs.
#include <pybind11/chrono.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>
#include <unistd.h>

#include "base/config.h"
#include "base/interruption.h"
#include "base/secret.h"
#include "c10d/flight_log.h"
#include "c10d/narrowing.h"
#include "c10d/process_group.h"
#include "c10d/store_rendezvous.h"
#include "client/controller_client.h"
#include "seal/seal_key.h"
#include "store/store_exchange.h"

namespace py = pybind11;

namespace switchml {

void without_interpreter_lock(const std::function<void()>& f) {
  if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
    const py::gil_scoped_release unlocked;
    f();
  } else {
    f();
  }
}

namespace {

using BasePtr = c10::intrusive_ptr<compat::Base>;
using StorePtr = c10::intrusive_ptr<c10d::Store>;
using OptionMap = std::map<std::string, std::string>;

constexpr std::chrono::milliseconds kDefaultTimeout = std::chrono::minutes(30);  // The default of torch.distributed.

Config configured(const OptionMap& options) {
  Result<Config> config = load_config(process_environment(), options);
  if (!config.ok()) throw py::value_error("switchml: " + config.status().message());
  return config.value();
}

/// The handlers of signals that have come while Python's main thread waits in here. Throws what they raise.
void run_signal_handlers() {
  if (::gettid() != ::getpid() || Py_IsInitialized() == 0) return;
  const py::gil_scoped_acquire locked;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

/// A Python callable that is dropped under the global lock.
std::shared_ptr<py::function> keep(py::function function) {
  return {new py::function(std::move(function)), [](py::function* f) {
            if (Py_IsInitialized() == 0) return;  // the interpreter took it along
            const py::gil_scoped_acquire locked;
            delete f;
          }};
}

/// The client that python/switchml/_controller.py is.
class PythonController : public ControllerClient {
 public:
  PythonController(py::function function, const Config& config) : ask_(keep(std::move(function))), config_(config) {}

  Result<std::vector<LocatedShare>> locate(const RankAddresses& ranks, Time deadline) override {
    return guarded<std::vector<LocatedShare>>([&](py::dict question) {
      question["ranks"] = ranks;
      std::vector<LocatedShare> shares;
      for (const py::handle share : ask("locate", question, deadline)) {
        auto [weight, switches, tree_id] = share.cast<std::tuple<uint32_t, std::vector<std::string>, uint64_t>>();
        shares.push_back({weight, std::move(switches), tree_id});
      }
      return shares;
    });
  }

  Result<wire::OpenReply> open(const wire::Open& asked, const RankAddresses& ranks, size_t share,
                               const std::string& group, const wire::Membership& replaced, Time deadline) override {
    return guarded<wire::OpenReply>([&](py::dict question) {
      question["ranks"] = ranks;
      question["group"] = group;
      question["share"] = share;
      question["protocol_version"] = int{wire::kVersion};
      question["client_key"] = asked.client_key;
      question["shards"] = asked.shards;
      question["slots"] = asked.slots;
      question["payload_bytes"] = asked.payload;
      question["queue_pairs"] = (asked.flags & wire::kOpenUnreliable) != 0;
      question["exact"] = (asked.flags & wire::kOpenExact) != 0;
      question["replaces"] = py::make_tuple(int{replaced.job}, replaced.epoch, replaced.session_key);
      const py::dict answer = ask("open", question, deadline);
      wire::OpenReply granted;
      granted.session_key = answer["session_key"].cast<uint64_t>();
      granted.epoch = answer["epoch"].cast<uint32_t>();
      granted.job = answer["job"].cast<uint8_t>();
      const auto flag = [&](const char* name, uint8_t bit) { return answer[name].cast<bool>() ? bit : uint8_t{0}; };
      granted.flags = flag("whole_chunks", wire::kOpenWholeChunks) | flag("exact", wire::kOpenExact) |
                      flag("tree", wire::kOpenTree);
      granted.slots = answer["slots"].cast<uint16_t>();
      granted.payload = answer["payload_bytes"].cast<uint32_t>();
      granted.lease_ms = answer["lease_ms"].cast<uint32_t>();
      return granted;
    });
  }

 private:
  py::object ask(const char* call, py::dict question, Time deadline) const {
    question["address"] = config_.controller;
    question["token"] = py::module::import("switchml._secret").attr("Secret")(config_.controller_token);
    question["token_file"] = config_.controller_token_file;
    question["ca_file"] = config_.controller_ca;
    question["cert_file"] = config_.controller_cert;
    question["key_file"] = config_.controller_key;
    question["patience"] = std::max(0.0, to_seconds(deadline - monotonic_now()));
    return (*ask_)(call, question);
  }

  // ValueError: what is asked can never be had; other exceptions: not now. Their text is the message.
  template <typename T, typename F>
  Result<T> guarded(F&& f) const {
    const py::gil_scoped_acquire locked;
    try {
      return f(py::dict());
    } catch (const py::error_already_set& error) {
      if (!error.matches(PyExc_Exception)) throw;  // Ctrl-C, or an end of the process
      const Code code = error.matches(PyExc_ValueError) ? Code::kInvalidArgument : Code::kUnavailable;
      const std::string text = py::str(error.value()).cast<std::string>();
      const std::string name = py::str(error.type().attr("__name__")).cast<std::string>();
      return Status(code, text.empty() ? "controller " + config_.controller + ": interrupted (" + name + ")" : text);
    } catch (const py::cast_error&) {
      return Status(Code::kMismatch, "controller " + config_.controller +
                                         " answers with values out of range: install the same switchml there and here");
    }
  }

  std::shared_ptr<py::function> ask_;
  const Config config_;
};

/// The settings of a rank's group, or an exception, which the ranks that wait for this one hear of.
Config configured(const OptionMap& options, const StorePtr& store, const GroupInfo& group) {
  try {
    return configured(options);
  } catch (const std::exception& error) {
    const py::gil_scoped_release unlocked;
    const auto rendezvous = StoreRendezvous::open(store, group.rank);
    if (rendezvous.ok()) give_up_opening(*rendezvous.value(), group, Status(Code::kInvalidArgument, error.what()));
    throw;
  }
}

/// The constructor of Python's class. `name` is for messages. What needs Python is in python/switchml/_registration.py.
c10::intrusive_ptr<ProcessGroupSwitchML> create(const StorePtr& store, int rank, int size,
                                                std::chrono::milliseconds timeout, const py::object& options,
                                                const std::string& name, const std::vector<uint64_t>& global_ranks,
                                                bool awaits_ranks) {
  // Kept for ever: finalizers make groups when the interpreter imports nothing any more.
  static const auto& python = *new py::module(py::module::import("switchml._registration"));
  ProcessGroupSwitchML::Settings settings;
  settings.store = store;
  settings.rank = rank;
  settings.size = size;
  settings.timeout = timeout;
  settings.name = name;
  settings.global_ranks = global_ranks;
  settings.world = below_prefixes(store);
  settings.config = configured(python.attr("_values_in_force")(options).cast<OptionMap>(), store, {rank, size, name});
  settings.awaits_ranks = awaits_ranks;
  settings.needs_interpreter = !settings.config.controller.empty() || python.attr("_is_of_python")(store).cast<bool>();
  settings.controller = std::make_shared<PythonController>(python.attr("_ask_controller"), settings.config);
  const py::gil_scoped_release unlocked;
  return ProcessGroupSwitchML::create(std::move(settings));
}

py::dict calls_dict(const CallTable& calls) {
  py::dict result;
  for (size_t i = 0; i < kCalls; ++i) {
    const auto call = static_cast<Call>(i);
    py::dict row;
    for (const Way way : kAllWays) {
      if (const uint64_t n = calls.get(call, way)) row[to_string(way)] = n;
    }
    if (!row.empty()) result[to_string(call)] = row;
  }
  return result;
}

/// The counters of a group, or None if it is not one of ours.
py::object stats(const BasePtr& backend) {
  const auto* group = dynamic_cast<const ProcessGroupSwitchML*>(backend.get());
  if (group == nullptr) return py::none();
  Statistics statistics;
  {
    const py::gil_scoped_release unlocked;
    statistics = group->statistics();
  }
  py::dict result;
  result["backend"] = "switchml";
  result["group"] = group->group().name;
  result["rank"] = group->group().rank;
  result["size"] = group->group().size;
  for (const auto& [name, value] : statistics.worker) result[py::str(name)] = value;
  for (const Way way : kAllWays) {
    result[py::str(std::string("calls_") + to_string(way))] = group->calls().total(way);
  }
  result["calls"] = calls_dict(group->calls());
  py::dict session;
  session["transport"] = statistics.transport;
  session["precision"] = statistics.precision;
  session["encryption"] = statistics.encryption;
  session["switch"] = statistics.switch_address;
  session["address"] = statistics.address;
  session["payload_bytes"] = statistics.payload_bytes;
  session["slots"] = statistics.slots;
  session["shards"] = statistics.shards;
  session["job_shards"] = statistics.job_shards;
  session["kernels"] = statistics.kernels;
  session["metrics"] = statistics.metrics;
  result["session"] = session;
  result["memory_bytes"] = statistics.memory_bytes;
  result["arena_bytes"] = statistics.arena_bytes;
  result["arena_limit_bytes"] = statistics.arena_limit_bytes;
  result["pinned_bytes"] = statistics.pinned_bytes;
  result["pinned_limit_bytes"] = statistics.pinned_limit_bytes;
  if (!statistics.embedded.empty()) result["switch"] = py::cast(statistics.embedded);
  return result;
}

/// Bytes in memory that the ranks share, or elsewhere; None if the group is not one of ours.
py::object allocate(const BasePtr& backend, int64_t bytes) {
  auto* group = dynamic_cast<ProcessGroupSwitchML*>(backend.get());
  if (group == nullptr) return py::none();
  const py::gil_scoped_release unlocked;
  const at::Tensor memory = group->allocate(bytes, at::TensorOptions(at::kByte));
  const py::gil_scoped_acquire locked;
  return py::cast(memory);
}

/// In the words of PyTorch's flight recorder.
const char* state_of(const FlightEntry& entry) {
  if (entry.completed != 0) return "completed";
  return entry.started != 0 ? "started" : "scheduled";
}

py::dict flight_dict(const FlightEntry& entry, const FlightGroup& group) {
  const auto time = [](int64_t moment) -> py::object {
    return moment == 0 ? py::object(py::none()) : py::int_(moment);
  };
  py::dict row;
  row["pg_id"] = entry.group;
  row["process_group"] = py::make_tuple(group.name, group.description);
  row["collective_seq_id"] = entry.collective;
  row["p2p_seq_id"] = entry.message;
  row["op_id"] = entry.collective + entry.message;
  row["profiling_name"] = profiling_title(entry.call);
  row["time_created_ns"] = entry.created;
  row["input_sizes"] = entry.inputs.sizes();
  row["input_dtypes"] = entry.inputs.types();
  row["output_sizes"] = entry.outputs.sizes();
  row["output_dtypes"] = entry.outputs.types();
  row["state"] = state_of(entry);
  row["time_discovered_started_ns"] = time(entry.started);
  row["time_discovered_completed_ns"] = time(entry.completed);
  row["retired"] = entry.retired;
  row["timeout_ms"] = entry.timeout.count();
  row["is_p2p"] = entry.is_message;
  if (entry.duration_ms) row["duration_ms"] = *entry.duration_ms;
  row["record_id"] = entry.id - 1;
  if (!entry.is_message) return row;
  const MessageStream stream = entry.stream.value_or(MessageStream{-1, group.rank, 0});
  row["stream"] = py::make_tuple(stream.source, stream.destination, stream.tag);
  row["place"] = entry.place;
  return row;
}

/// The calls of this process's groups, and the groups, as PyTorch's flight recorder would have them.
py::dict flights() {
  std::vector<FlightEntry> entries;
  std::map<uint64_t, FlightGroup> groups;
  {
    const py::gil_scoped_release unlocked;
    ProcessGroupSwitchML::name_flights();
    entries = FlightLog::of_process().entries();
    groups = FlightLog::of_process().groups();
  }
  py::dict result;
  py::list rows;
  for (const FlightEntry& entry : entries) rows.append(flight_dict(entry, groups[entry.group]));
  py::list described;
  for (const auto& [number, group] : groups) {
    described.append(py::dict(py::arg("id") = number, py::arg("name") = group.name, py::arg("desc") = group.description,
                              py::arg("ranks") = group.ranks, py::arg("rank") = group.rank,
                              py::arg("last_enqueued") = group.last_enqueued,
                              py::arg("last_completed") = group.last_completed));
  }
  result["entries"] = rows;
  result["groups"] = described;
  return result;
}

py::list setting_list() {
  py::list result;
  for (const SettingInfo& info : settings()) {
    py::dict row;
    row["name"] = info.name;
    row["allowed"] = info.allowed;
    row["default"] = info.default_value;
    row["help"] = info.help;
    row["secret"] = is_secret(info.name);
    result.append(row);
  }
  return result;
}

/// The group's class, so that Python sees what Backend's own does not offer.
void add_group_class(py::module& module, const py::module& c10d_module) {
  using Options = ProcessGroupSwitchML::Options;
  py::class_<ProcessGroupSwitchML, c10::intrusive_ptr<ProcessGroupSwitchML>, compat::Base> group(
      module, "ProcessGroupSwitchML");
  group.def(py::init(&create), py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout") = kDefaultTimeout,
            py::arg("options") = py::none(), py::kw_only(), py::arg("name") = "default",
            py::arg("global_ranks") = std::vector<uint64_t>(), py::arg("awaits_ranks") = false);
  group.def_property_readonly("options", &ProcessGroupSwitchML::getBackendOptions);
  // Called where a default group has a device_id, on ranks that a new group leaves out.
  group.def(
      "perform_nocolor_split", [](ProcessGroupSwitchML& /*self*/, const py::object& /*device*/) {}, py::arg("device"));
  if (py::hasattr(c10d_module, "ErrorType")) {
    group.def("get_error", &ProcessGroupSwitchML::getError, py::call_guard<py::gil_scoped_release>());
  }
  const auto sum_to_float32 = [](ProcessGroupSwitchML& self, const at::Tensor& output, const at::Tensor& input,
                                 const std::string& format, bool mean, bool scatters, bool waits) {
    return self.sum_to_float32(output, input, {format, mean, scatters, waits});
  };
  group.def("_sum_to_float32", sum_to_float32, py::arg("output"), py::arg("input"), py::kw_only(), py::arg("format"),
            py::arg("mean"), py::arg("scatters"), py::arg("waits"), py::call_guard<py::gil_scoped_release>());
  const py::object base = c10d_module.attr(compat::kBaseClassName);
  // Backend's own asks for a bucket of DDP, and would give a complex tensor as a real one.
  if (py::hasattr(base, "allocate_tensor")) {
    const auto allocate_tensor = [](ProcessGroupSwitchML& self, int64_t size, at::ScalarType dtype,
                                    const at::Device& device) {
      return self.allocate(size, at::TensorOptions().dtype(dtype).device(device));
    };
    group.def("allocate_tensor", allocate_tensor, py::arg("size"), py::kw_only(), py::arg("dtype"), py::arg("device"),
              py::call_guard<py::gil_scoped_release>());
  }
  // What later versions of Backend offer by themselves.
  const auto add = [&](const char* name, auto method, const auto&... more) {
    if (!py::hasattr(base, name)) group.def(name, method, more...);
  };
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  add("abort", &ProcessGroupSwitchML::abort, Unlocked());
  add("register_abort_hook", &ProcessGroupSwitchML::registerAbortHook, py::arg("hook_id"), py::arg("hook"));
  add("unregister_abort_hook", &ProcessGroupSwitchML::unregisterAbortHook, py::arg("hook_id"));
  add("_add_ephemeral_timeout", &ProcessGroupSwitchML::addEphemeralTimeout, py::arg("timeout"), Unlocked());
  add("shrink", &ProcessGroupSwitchML::shrink, py::arg("ranks_to_exclude"), py::arg("shrink_flags") = 0,
      py::arg("opts_override") = nullptr, Unlocked());
  add("merge", &ProcessGroupSwitchML::merge, py::arg("store"), py::arg("opts"), py::arg("rank"), py::arg("size"),
      Unlocked());
  add("gather_single", &ProcessGroupSwitchML::gather_single, py::arg("output_tensor"), py::arg("input_tensor"),
      py::arg("opts") = c10d::GatherOptions(), Unlocked());
  py::class_<Options, c10::intrusive_ptr<Options>, compat::BaseOptions>(group, "Options")
      .def("__deepcopy__", [](const Options& self, const py::dict&) { return self.clone(); });
}

}  // namespace
}  // namespace switchml

PYBIND11_MODULE(_C, module) {
  using namespace switchml;
  // Registers the classes that the signatures name.
  const auto c10d_module = py::module::import("torch._C._distributed_c10d");
  module.doc() = "The compiled part of switchml; use the package switchml instead.";
  set_interruption_check(&run_signal_handlers);
  module.attr("torch_version") = std::to_string(TORCH_VERSION_MAJOR) + "." + std::to_string(TORCH_VERSION_MINOR);
  add_group_class(module, c10d_module);
  module.def("stats", &stats, py::arg("backend"));
  module.def("allocate", &allocate, py::arg("backend"), py::arg("bytes"));
  module.def("flights", &flights);
  module.def("narrow", &narrow_tensor, py::arg("source"), py::arg("error"), py::arg("terms"), py::arg("format"),
             py::call_guard<py::gil_scoped_release>());
  module.def("widen", &widen_tensor, py::arg("terms"), py::arg("output"), py::arg("format"),
             py::call_guard<py::gil_scoped_release>());
  module.def("settings", &setting_list);
  module.def("has_aes_instructions", &has_aes_instructions);
  module.def(
      "describe", [](const OptionMap& options) { return describe(configured(options)); }, py::arg("options"));
  // When no Python is left; the interpreter has room for some such functions only.
  const bool may_outlive = Py_AtExit(&ProcessGroupSwitchML::shutdown_all) == 0;
  module.def("outlive_interpreter",
             may_outlive ? &ProcessGroupSwitchML::outlive_interpreter : &ProcessGroupSwitchML::shutdown_all,
             py::call_guard<py::gil_scoped_release>());
}
