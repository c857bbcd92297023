// The one place that knows how PyTorch versions differ (1.13.1, 2.1 to 2.15). Nothing else in this folder tests a
// version.
#pragma once

#include <torch/version.h>

#define SWITCHML_TORCH (TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR)

#include <ATen/ATen.h>
#include <ATen/ThreadLocalState.h>
#include <c10/util/Exception.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#if SWITCHML_TORCH >= 200
#include <torch/csrc/distributed/c10d/Backend.hpp>
#else
#include <torch/csrc/distributed/c10d/exception.h>
#endif
#if SWITCHML_TORCH < 200 || SWITCHML_TORCH >= 213
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

// Virtual functions that the base class gained over time. From 2.13 on the compiler checks that they override; on an
// older PyTorch they override what is there, and the rest are ordinary members that are never called.
#if SWITCHML_TORCH >= 213
#define SWITCHML_LATER_OVERRIDE override
#else
#define SWITCHML_LATER_OVERRIDE
#endif
// The same of what 2.14 has added.
#if SWITCHML_TORCH >= 214
#define SWITCHML_OVERRIDE_OF_2_14 override
#else
#define SWITCHML_OVERRIDE_OF_2_14
#endif
// The same for what 2.15 has added.
#if SWITCHML_TORCH >= 215
#define SWITCHML_OVERRIDE_OF_2_15 override
#else
#define SWITCHML_OVERRIDE_OF_2_15
#endif

// Streams, events and pinned memory of any accelerator.
#define SWITCHML_STAGES_DEVICES (SWITCHML_TORCH >= 213)

namespace switchml::compat {

// ---- classes ----
#if SWITCHML_TORCH >= 200
/// What a backend derives from.
using Base = c10d::Backend;
inline constexpr const char* kBaseClassName = "Backend";
#else
using Base = c10d::ProcessGroup;
inline constexpr const char* kBaseClassName = "ProcessGroup";
#endif
using BaseOptions = Base::Options;

/// Whether endCoalescing() returns a work.
inline constexpr bool kCoalesces = SWITCHML_TORCH >= 201;

// ---- other ranks for the same group ----
#if SWITCHML_TORCH >= 214
using ReconfigureOptions = c10d::ReconfigureOptions;
#else
/// As in 2.14.
struct ReconfigureOptions {
  int64_t uuid = 0;
  std::variant<std::unordered_set<std::string>, std::vector<std::string>> handles;
  std::optional<std::chrono::milliseconds> timeout;
  std::unordered_map<std::string, std::string> hints;
};
#endif
/// Whether a group's rank and size may change: before 2.14 they are constant members of the base class.
inline constexpr bool kReconfigures = SWITCHML_TORCH >= 214;
inline void set_place(int& place, int value) { place = value; }
inline void set_place(const int& /*place*/, int /*value*/) {}

// ---- works that compiled code finds by their tensors ----
/// Takes a work that has been waited for out of c10d's registry, which holds it. It is there if the call was made
/// within allow_inflight_collective_as_graph_input_ctx().
inline void unregister(c10d::Work& work) {
#if SWITCHML_TORCH >= 213
  if (!c10d::allow_inflight_collective_as_graph_input()) return;
  c10d::unregister_work(c10::intrusive_ptr<c10d::Work>::unsafe_reclaim_from_nonowning(&work));
#else
  (void)work;
#endif
}

// ---- what hears of calls that have succeeded ----
#if SWITCHML_TORCH >= 215
using CompletionHookArgs = c10d::CompletionHookArgs;
inline uint64_t completion_key(const c10d::Work& work) { return work.getCompletionKey(); }
#else
/// As in 2.15.
struct CompletionHookArgs {
  uint64_t completionKey = 0;
  std::optional<float> duration_ms;
};
inline uint64_t completion_key(const c10d::Work& work) { return reinterpret_cast<uintptr_t>(&work); }
#endif
using CompletionHook = std::function<void(const CompletionHookArgs&)>;

// ---- what getError() tells ----
namespace detail {
template <typename B, typename = void>
struct ErrorTypeOf {
  enum class Type { SUCCESS = 0, TIMEOUT = 1, COMM_ERROR = 2, REMOTE_ERROR = 3 };
};
template <typename B>
struct ErrorTypeOf<B, std::void_t<decltype(std::declval<B&>().getError())>> {
  using Type = decltype(std::declval<B&>().getError());
};
}  // namespace detail
/// c10d's own where the base class has getError().
using ErrorType = detail::ErrorTypeOf<Base>::Type;

// ---- exceptions ----
#if SWITCHML_TORCH >= 200
[[noreturn]] inline void throw_backend_error(const std::string& text) { C10_THROW_ERROR(DistBackendError, text); }
[[noreturn]] inline void throw_timeout(const std::string& text) { C10_THROW_ERROR(DistBackendError, text); }
#else
[[noreturn]] inline void throw_backend_error(const std::string& text) { C10_THROW_ERROR(Error, text); }
[[noreturn]] inline void throw_timeout(const std::string& text) { throw c10d::TimeoutError(text); }
#endif
/// A RuntimeError, what c10d's own checks throw.
[[noreturn]] inline void throw_argument_error(const std::string& text) { C10_THROW_ERROR(Error, text); }
[[noreturn]] inline void throw_value_error(const std::string& text) { C10_THROW_ERROR(ValueError, text); }

[[noreturn]] inline void throw_type_error(const std::string& text) { C10_THROW_ERROR(TypeError, text); }

// ---- types ----
#if SWITCHML_TORCH >= 201
inline constexpr at::ScalarType kFloat8E4M3 = at::ScalarType::Float8_e4m3fn;
inline constexpr at::ScalarType kFloat8E5M2 = at::ScalarType::Float8_e5m2;
#else
inline constexpr at::ScalarType kFloat8E4M3 = at::ScalarType::NumOptions;  // No tensor's.
inline constexpr at::ScalarType kFloat8E5M2 = at::ScalarType::NumOptions;
#endif
inline bool is_float8(at::ScalarType type) { return type == kFloat8E4M3 || type == kFloat8E5M2; }

// ---- PREMUL_SUM's factor: a number, or a tensor of one element ----
namespace detail {
template <typename Supplement>
auto factor_tensor(const Supplement& s, int) -> decltype(std::optional<at::Tensor>(s.tensor_factor)) {
  return s.tensor_factor.defined() ? std::optional<at::Tensor>(s.tensor_factor) : std::nullopt;
}
template <typename Supplement>
auto factor_tensor(const Supplement& s, long) -> decltype(std::optional<at::Tensor>(s.tensor_factors.front())) {
  return s.tensor_factors.empty() ? std::nullopt : std::optional<at::Tensor>(s.tensor_factors.front());
}
}  // namespace detail

/// tensor * factor, as a new contiguous tensor of the same type. Precondition: op is PREMUL_SUM.
inline at::Tensor premultiplied(const at::Tensor& tensor, const c10d::ReduceOp& op) {
  const auto* supplement = dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  if (supplement == nullptr) throw_value_error("switchml: ReduceOp PREMUL_SUM carries no factor");
  const std::optional<at::Tensor> factor = detail::factor_tensor(*supplement, 0);
  const at::Tensor terms = is_float8(tensor.scalar_type()) ? tensor.to(at::kFloat) : tensor;  // These do not multiply.
  const at::Tensor product = factor ? at::mul(terms, *factor) : at::mul(terms, supplement->double_factor);
  return product.to(tensor.scalar_type()).resolve_conj().contiguous();
}

// ---- members that not every base class has ----
namespace detail {
template <typename Options>
auto is_waited_for(const Options& options, int) -> decltype(!options.asyncOp) {
  return !options.asyncOp;
}
template <typename Options>
bool is_waited_for(const Options&, long) {
  return false;
}
template <typename S>
auto clone(const c10::intrusive_ptr<S>& store, int) -> decltype(store->clone()) {
  return store->clone();
}
template <typename S>
c10::intrusive_ptr<S> clone(const c10::intrusive_ptr<S>& store, long) {
  return store;
}
template <typename S>
auto multi_get(S& store, const std::vector<std::string>& keys, int)
    -> std::enable_if_t<std::is_member_function_pointer_v<decltype(&S::hasExtendedApi)>,
                        std::optional<std::vector<std::vector<uint8_t>>>> {
  if (!store.hasExtendedApi()) return std::nullopt;
  return store.multiGet(keys);
}
template <typename S>
std::optional<std::vector<std::vector<uint8_t>>> multi_get(S&, const std::vector<std::string>&, long) {
  return std::nullopt;
}
template <typename Options>
auto describe_group(Options& options, const std::string& name, const std::string& description,
                    const std::vector<uint64_t>& ranks, int)
    -> decltype(options.global_ranks_in_group = ranks, options.group_desc = description, void()) {
  options.group_name = name;
  options.group_desc = description;
  options.global_ranks_in_group = ranks;
}
template <typename Options>
void describe_group(Options&, const std::string&, const std::string&, const std::vector<uint64_t>&, long) {}
template <typename Options>
auto group_name(const Options& options, int) -> decltype(std::string(options.group_name)) {
  return options.group_name;
}
template <typename Options>
std::string group_name(const Options&, long) {
  return {};
}
template <typename B>
auto uid(const B& base, int) -> decltype(std::string(base.getGroupUid())) {
  return base.getGroupUid();
}
template <typename B>
std::string uid(const B&, long) {
  return {};
}
template <typename B>
auto description(const B& base, int) -> decltype(std::string(base.getGroupDesc())) {
  return base.getGroupDesc();
}
template <typename B>
std::string description(const B&, long) {
  return {};
}
}  // namespace detail
/// What c10d calls a group; empty where it has not said so, or never does.
inline std::string uid(const Base& base) { return detail::uid(base, 0); }
inline std::string description(const Base& base) { return detail::description(base, 0); }
/// What a group's options say of it, where they can.
inline void describe_group(BaseOptions& options, const std::string& name, const std::string& description,
                           const std::vector<uint64_t>& ranks) {
  detail::describe_group(options, name, description, ranks, 0);
}
/// Empty where they do not tell.
inline std::string group_name(const BaseOptions& options) { return detail::group_name(options, 0); }
/// A client of the same store for another thread; the same object where a store has none.
inline c10::intrusive_ptr<c10d::Store> clone(const c10::intrusive_ptr<c10d::Store>& store) {
  return detail::clone(store, 0);
}
/// Values of keys that are there, asked for at once where the store can.
inline std::vector<std::vector<uint8_t>> multi_get(c10d::Store& store, const std::vector<std::string>& keys) {
  if (auto values = detail::multi_get(store, keys, 0)) return std::move(*values);
  std::vector<std::vector<uint8_t>> values;
  for (const std::string& key : keys) values.push_back(store.get(key));
  return values;
}
/// Whether the caller with these options waits for the result at once; false where they do not say.
template <typename Options>
bool is_waited_for(const Options& options) {
  return detail::is_waited_for(options, 0);
}

}  // namespace switchml::compat
