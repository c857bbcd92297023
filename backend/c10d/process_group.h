// ProcessGroupSwitchML: torch.distributed's collectives over memory, hosts and switches.
// docs/collectives.md has the table.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/metrics_text.h"
#include "c10d/arguments.h"
#include "c10d/coalescing.h"
#include "c10d/compat.h"
#include "c10d/engine_call.h"
#include "c10d/group_core.h"
#include "c10d/monitored_barrier.h"
#include "shm/arena.h"

namespace switchml {

/// Counters by name, and the session's parameters; what switchml.stats() shows.
struct Statistics {
  std::map<std::string, uint64_t> worker;    // WorkerCounters, summed over the shards
  std::map<std::string, uint64_t> embedded;  // SwitchCounters, on the rank that hosts the switch
  std::string switch_address;                // empty: none yet, or a group of one
  std::string address;                       // Host of this rank; empty: none, or a group of one.
  std::string transport;                     // Abilities::transport, or empty: none
  std::string precision;                     // Abilities::precision; empty: a group of one
  std::string encryption;                    // Abilities::encryption(); empty: a group of one.
  uint64_t payload_bytes = 0;
  int slots = 0;
  int shards = 0;      // Per rank, as SWITCHML_SHARDS has it.
  int job_shards = 0;  // The job's at its switch: a host's ranks may be one worker, with a shard each.
  std::string kernels;
  uint64_t memory_bytes = 0;
  uint64_t arena_bytes = 0;  // Bytes of tensors.
  uint64_t arena_limit_bytes = 0;
  uint64_t pinned_bytes = 0;  // Memory for tensors of an accelerator.
  uint64_t pinned_limit_bytes = 0;
  std::string metrics;  // MetricsService::place()
};

class ProcessGroupSwitchML final : public compat::Base {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;

  struct Settings {
    c10::intrusive_ptr<c10d::Store> store;  // private to the group
    int rank = 0;
    int size = 1;
    std::chrono::milliseconds timeout{0};
    std::string name;                    // Messages have it.
    std::vector<uint64_t> global_ranks;  // Ranks of its members in the world; none: 0, 1, ...
    const void* world = nullptr;         // Identity of that world, for comparisons; null: not known.
    Config config;
    std::shared_ptr<ControllerClient> controller;  // asked where the configuration names one; may be null
    bool awaits_ranks = false;                     // opens no session: reconfigure() does
    bool needs_interpreter = false;                // the store or the controller's client is of Python
  };

  struct Options final : compat::BaseOptions {
    explicit Options(std::chrono::milliseconds t) : compat::BaseOptions("switchml", t) {}
    c10::intrusive_ptr<compat::BaseOptions> clone() const SWITCHML_OVERRIDE_OF_2_14;
  };

  /// A collective of the group's ranks: opens the session. Throws, on all ranks alike, where that fails.
  static c10::intrusive_ptr<ProcessGroupSwitchML> create(Settings settings);
  explicit ProcessGroupSwitchML(Settings settings);
  /// shutdown().
  ~ProcessGroupSwitchML() override;
  /// The registry's weak references keep the object; its threads and sockets go with the last strong one.
  void release_resources() override;

  /// Prepares every group of this process for the end of the interpreter, which a finalizer may call them in: none of
  /// their threads needs Python afterwards. Those that cannot be without it end here.
  static void outlive_interpreter();
  /// Ends every group of this process that still lives.
  static void shutdown_all();

  // ---- what reduces ----
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts = {}) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts = {}) override;
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts = {}) SWITCHML_LATER_OVERRIDE;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& opts = {}) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& opts = {}) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& opts = {}) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& opts = {}) SWITCHML_LATER_OVERRIDE;
  /// A sum of narrow terms to float32, which torch.distributed does not have.
  struct NarrowSum {
    std::string format;  // Of the numbers in blocks under scales: int8, float8_e4m3fn; empty: numbers without blocks.
    bool mean = false;   // Divided by the number of ranks.
    bool scatters = false;  // Each rank gets its part.
    bool waits = false;     // The caller, at once.
  };
  WorkPtr sum_to_float32(const at::Tensor& output, const at::Tensor& input, const NarrowSum& sum);
  WorkPtr barrier(const c10d::BarrierOptions& opts = {}) override;

  // ---- what moves ----
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts = {}) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts = {}) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts = {}) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& opts = {}) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& opts = {}) SWITCHML_LATER_OVERRIDE;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& opts = {}) override;
  /// The same, to equal parts of the root's output.
  WorkPtr gather_single(at::Tensor& output, at::Tensor& input,
                        const c10d::GatherOptions& opts = {}) SWITCHML_OVERRIDE_OF_2_14;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& opts = {}) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& opts = {}) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts = {}) override;
  WorkPtr send(Tensors& tensors, int destination, int tag) override;
  WorkPtr recv(Tensors& tensors, int source, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;

  // ---- through the store ----
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks = false) override;

  // ---- tensors in memory that the ranks of the host share ----
  bool supportsTensorAlloc(c10::DeviceIndex device) SWITCHML_LATER_OVERRIDE;
  /// shared_empty() (c10d/shared_tensors.h), anywhere else where the group does not share memory.
  at::Tensor allocate(int64_t size, const at::TensorOptions& options);
  /// The same of bucket_empty(), which differs where the type is complex. Python's allocate_tensor() is allocate().
  at::Tensor allocateTensor(long size, at::TensorOptions options = {}) SWITCHML_LATER_OVERRIDE;
  /// Throws where the group does not share memory.
  std::shared_ptr<c10::Allocator> getMemAllocator() SWITCHML_LATER_OVERRIDE;

  // ---- the group itself ----
  const std::string getBackendName() const override { return "switchml"; }
  void setSequenceNumberForGroup() override;
  uint64_t getSequenceNumberForGroup() override { return core_->sequence(); }
  void setTimeout(std::chrono::milliseconds timeout) SWITCHML_LATER_OVERRIDE;
  bool supportsSplitting() const SWITCHML_LATER_OVERRIDE { return true; }
  c10::intrusive_ptr<compat::BaseOptions> getBackendOptions() SWITCHML_LATER_OVERRIDE;
  /// Works of later calls tell their getDuration().
  void enableCollectivesTiming() SWITCHML_LATER_OVERRIDE { core_->time_calls(); }
  /// TIMEOUT after a call's deadline, REMOTE_ERROR where a rank or the switch is lost, COMM_ERROR of all else that ends
  /// the group, so after abort() and shutdown().
  compat::ErrorType getError() SWITCHML_LATER_OVERRIDE;
  /// The group of `ranks` (of this one), on their own part of `store`; null on the other ranks.
  c10::intrusive_ptr<compat::Base> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                         const c10::intrusive_ptr<compat::BaseOptions>& opts) SWITCHML_LATER_OVERRIDE;
  /// The group of the ranks that are not in `excluded`, which must not call this; of a group that has failed, too.
  /// `flags`: 0, or 1 (SHRINK_ABORT), which first fails what is under way. A collective of the ranks that stay.
  c10::intrusive_ptr<compat::Base> shrink(const std::vector<int64_t>& excluded, int flags = 0,
                                          const c10::intrusive_ptr<compat::BaseOptions>& opts = {})
      SWITCHML_LATER_OVERRIDE;
  bool supportsShrinking() const SWITCHML_LATER_OVERRIDE { return true; }
  /// A group of ranks of several groups, which meet at `store`.
  c10::intrusive_ptr<compat::Base> merge(const c10::intrusive_ptr<c10d::Store>& store,
                                         const c10::intrusive_ptr<compat::BaseOptions>& opts, const int& rank,
                                         const int& size) SWITCHML_LATER_OVERRIDE;
  /// The next ranks of this group, in this object: those that name this rank's handle, and one another's, with an equal
  /// `uuid`, on the store that the group was made with. Ends what is under way. An ordered list numbers the ranks;
  /// those of a set are in the order of their numbers so far. Returns when all have come, or throws: then another
  /// reconfigure() may follow. No other call of the group may run meanwhile.
  WorkPtr reconfigure(const compat::ReconfigureOptions& opts) SWITCHML_OVERRIDE_OF_2_14;
  std::string get_reconfigure_handle() const SWITCHML_OVERRIDE_OF_2_14 { return handle_; }
  bool supportsReconfigure() const SWITCHML_OVERRIDE_OF_2_14 { return compat::kReconfigures; }
  /// Called once, before the group ends by an abort() or an error. From any thread.
  void registerAbortHook(int64_t id, AbortHooks::Hook hook) SWITCHML_OVERRIDE_OF_2_14;
  void unregisterAbortHook(int64_t id) SWITCHML_OVERRIDE_OF_2_14;
  bool supportsAbortHooks() const SWITCHML_OVERRIDE_OF_2_15 { return true; }
  /// Called after each call that has succeeded.
  void registerCompletionHook(int64_t id, compat::CompletionHook hook) SWITCHML_OVERRIDE_OF_2_15;
  void unregisterCompletionHook(int64_t id) SWITCHML_OVERRIDE_OF_2_15;
  bool supportsCompletionHooks() const SWITCHML_OVERRIDE_OF_2_15 { return true; }
  /// False: it waits for reconfigure().
  bool isInitialized() SWITCHML_OVERRIDE_OF_2_15 { return !settings_.awaits_ranks; }
  /// Collectives get so much more time, until the first that is made from now on is complete.
  void addEphemeralTimeout(const std::chrono::milliseconds& extra) SWITCHML_OVERRIDE_OF_2_14;
  bool supportsCoalescing() const SWITCHML_LATER_OVERRIDE { return true; }
  void startCoalescing() SWITCHML_LATER_OVERRIDE;
  /// The calls that this thread has made since; each was issued when it was made.
  WorkPtr endCoalescing() SWITCHML_LATER_OVERRIDE;
  /// Fails what is under way or comes later; returns at once.
  void abort() SWITCHML_LATER_OVERRIDE;
  /// Lets what is under way end (for a moment), leaves the session and joins every thread. Idempotent; thread-safe:
  /// the second caller waits for the first, but in a callback. Does nothing in a forked child.
  void shutdown() SWITCHML_LATER_OVERRIDE;

  /// The metrics of this process's open groups, for MetricsService.
  static std::string metrics(const MetricLabels& labels);
  /// Tells FlightLog what c10d calls the groups of this process.
  static void name_flights();

  const CallTable& calls() const { return core_->calls(); }
  const GroupInfo& group() const { return core_->group(); }
  /// After shutdown(): the last values.
  Statistics statistics() const;

 private:
  /// What the options of all calls say.
  struct Terms {
    std::chrono::milliseconds timeout;
    bool waits = false;  // the caller, at once
    template <typename Options>
    static Terms of(const Options& options) {
      return {options.timeout, compat::is_waited_for(options)};
    }
  };
  c10::intrusive_ptr<compat::Base> create_once(Settings settings);
  std::shared_ptr<shm::Arena> arena() const;
  void name_flight() const;
  void join_ranks(std::chrono::milliseconds timeout);
  void open_session(std::chrono::milliseconds timeout);
  void end_everything();
  void part_with_interpreter();
  Time deadline(std::chrono::milliseconds timeout) const;
  EngineCall engine_call(Call call, c10d::OpType type, const c10d::ReduceOp& op, Terms terms) const;
  /// A call that moves tensors through the engine, to `results`. `what`: what ranks must agree about.
  EngineCall movement(Call call, c10d::OpType type, const Tensors& results, const std::string& what, Terms terms) const;
  /// The same, with the inputs of all ranks gathered in `results`: by rank, as many as there are inputs.
  EngineCall gathering(Call call, c10d::OpType type, const Tensors& inputs, const Tensors& results,
                       const std::string& what, Terms terms) const;
  WorkPtr gather_into_tensors(Call call, c10d::OpType type, const Tensors& outputs, const Tensors& inputs,
                              const c10d::AllgatherOptions& opts);
  WorkPtr remember(WorkPtr work);
  std::vector<uint64_t> global_ranks() const;
  /// Throws where the group is closed. `peer`: kAnySource is any rank.
  WorkPtr message(Call call, c10d::OpType type, const Tensors& tensors, int peer, int tag);
  /// A call that reduces such tensors. Throws where their types have no such operation.
  EngineCall reduction(Call call, c10d::OpType type, const Tensors& tensors, const c10d::ReduceOp& op,
                       Terms terms) const;
  /// `root`: where alone the result is written.
  WorkPtr reduce_in_place(Call call, c10d::OpType type, const Tensors& tensors, const c10d::ReduceOp& op, Terms terms,
                          std::optional<int64_t> root = {});
  WorkPtr all_reduce(Call call, const Tensors& tensors, const c10d::AllreduceOptions& opts);
  WorkPtr all_reduce_sparse(Call call, const Tensors& tensors, const c10d::AllreduceOptions& opts);
  WorkPtr reduce_scatter_tensors(Call call, c10d::OpType type, const Tensors& outputs, const Tensors& inputs,
                                 const c10d::ReduceScatterOptions& opts);
  Arguments arguments(Call call) const { return {call, core_->group()}; }

  Settings settings_;  // this, core_, and monitored_barrier_ are those of the last reconfigure()
  const c10::intrusive_ptr<c10d::Store> store_;  // The group was made with this one.
  const std::string handle_;
  std::set<int64_t> reconfigured_by_;  // uuids
  std::shared_ptr<GroupCore> core_;
  std::atomic<std::chrono::milliseconds> timeout_;
  c10::weak_intrusive_ptr<compat::Base> last_made_{c10::intrusive_ptr<compat::Base>()};  // By create_once().
  Outstanding outstanding_;
  Coalescing coalescing_;
  std::unique_ptr<MonitoredBarrier> monitored_barrier_;  // null in a group of one
  mutable std::mutex shutdown_mutex_;
  std::condition_variable shutdown_ended_;
  bool shutdown_begun_ = false;
  bool shut_down_ = false;
  mutable std::mutex statistics_mutex_;
  Statistics last_;
};

/// Runs `f` without Python's global lock if this thread holds it: joining threads that may need it. Lives in
/// bindings.cc, the only file that knows Python.
void without_interpreter_lock(const std::function<void()>& f);

}  // namespace switchml
