// The Python module switchml._C. Everything for people is in python/switchml; this is the least that it needs.
#include <pybind11/chrono.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <mutex>

#include "base/config.h"
#include "base/log.h"
#include "c10d/process_group.h"

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

Config configured(const OptionMap& options) {
  Result<Config> config = load_config(process_environment(), options);
  if (!config.ok()) throw py::value_error("switchml: " + config.status().message());
  static std::once_flag warned;
  std::call_once(warned, [] {
    for (const std::string& name : unknown_variables(process_variables())) {
      SWITCHML_LOG(kWarning) << "there is no setting " << name << ": ignored (README.md lists the settings)";
    }
  });
  return config.value();
}

/// A Python callable that is called and dropped under the global lock.
class MakeCompanion {
 public:
  explicit MakeCompanion(py::function function)
      : function_(new py::function(std::move(function)), [](py::function* f) {
          if (Py_IsInitialized() == 0) return;  // the interpreter took it along
          const py::gil_scoped_acquire locked;
          delete f;
        }) {}
  BasePtr operator()(const StorePtr& store, int rank, int size, std::chrono::milliseconds timeout) const {
    const py::gil_scoped_acquire locked;
    return py::cast<BasePtr>((*function_)(store, rank, size, timeout));
  }

 private:
  std::shared_ptr<py::function> function_;
};

BasePtr create(const StorePtr& store, int rank, int size, std::chrono::milliseconds timeout, const std::string& name,
               const OptionMap& options, py::function make_companion, bool companion_at_once) {
  ProcessGroupSwitchML::Settings settings;
  settings.store = store;
  settings.rank = rank;
  settings.size = size;
  settings.timeout = timeout;
  settings.name = name;
  settings.config = configured(options);
  settings.make_companion = MakeCompanion(std::move(make_companion));
  settings.companion_at_once = companion_at_once;
  const py::gil_scoped_release unlocked;
  return ProcessGroupSwitchML::create(std::move(settings));
}

py::dict calls_dict(const CallTable& calls) {
  py::dict result;
  for (size_t i = 0; i < kCalls; ++i) {
    const auto call = static_cast<Call>(i);
    py::dict row;
    for (const Path path : kAllPaths) {
      if (const uint64_t n = calls.get(call, path)) row[to_string(path)] = n;
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
  for (const Path path : kAllPaths) {
    result[py::str(std::string("calls_") + to_string(path))] = group->calls().total(path);
  }
  result["calls"] = calls_dict(group->calls());
  py::dict session;
  session["switch"] = statistics.switch_address;
  session["payload_bytes"] = statistics.payload_bytes;
  session["slots"] = statistics.slots;
  session["shards"] = statistics.shards;
  session["kernels"] = statistics.kernels;
  result["session"] = session;
  result["memory_bytes"] = statistics.memory_bytes;
  if (!statistics.embedded.empty()) result["switch"] = py::cast(statistics.embedded);
  return result;
}

py::list setting_list() {
  py::list result;
  for (const SettingInfo& info : settings()) {
    py::dict row;
    row["name"] = info.name;
    row["allowed"] = info.allowed;
    row["default"] = info.preset;
    row["help"] = info.help;
    result.append(row);
  }
  return result;
}

}  // namespace
}  // namespace switchml

PYBIND11_MODULE(_C, module) {
  using namespace switchml;
  py::module::import("torch._C._distributed_c10d");  // registers the classes that the signatures name
  module.doc() = "The compiled part of switchml; use the package switchml instead.";
  module.attr("torch_version") = std::to_string(TORCH_VERSION_MAJOR) + "." + std::to_string(TORCH_VERSION_MINOR);
  module.def("create", &create, py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout"), py::arg("name"),
             py::arg("options"), py::arg("make_companion"), py::arg("companion_at_once"));
  module.def("stats", &stats, py::arg("backend"));
  module.def("settings", &setting_list);
  module.def(
      "describe", [](const OptionMap& options) { return describe(configured(options)); }, py::arg("options"));
  module.def("shutdown_all", &ProcessGroupSwitchML::shutdown_all, py::call_guard<py::gil_scoped_release>());
}
