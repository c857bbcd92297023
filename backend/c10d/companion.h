// The companion: a Gloo group on the same store, for what a switch cannot do. Made when it is first needed where Gloo
// connects lazily, so that two ranks may use it while the others never do; else by the factory, on all ranks.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "c10d/group_core.h"
#include "c10d/staging.h"
#include "c10d/work.h"

namespace switchml {

class Companion {
 public:
  /// Makes the group. Called at most once, on the thread of the first call that needs it, without the GIL.
  using Factory = std::function<c10::intrusive_ptr<compat::Base>()>;

  Companion(std::shared_ptr<GroupCore> core, Factory factory) : core_(std::move(core)), factory_(std::move(factory)) {}

  /// The group. Throws what the factory throws, or that the process group was shut down.
  c10::intrusive_ptr<compat::Base> get();
  /// Null before the first get().
  c10::intrusive_ptr<compat::Base> existing() const;
  /// Forgets the group; its destructor waits for its operations.
  void release();

  /// A work that is complete when all `parts` are and `finish` has run (on a completion thread), or fails with the
  /// first part that does; the future's value is `outputs`. Counts nothing.
  c10::intrusive_ptr<c10d::Work> compose(Call call, c10d::OpType type,
                                         std::vector<c10::intrusive_ptr<c10d::Work>> parts,
                                         std::vector<at::Tensor> outputs, std::function<void()> finish);

 private:
  const std::shared_ptr<GroupCore> core_;
  mutable std::mutex mutex_;
  Factory factory_;
  c10::intrusive_ptr<compat::Base> group_;
};

/// Stand-ins for tensors that Gloo moves but does not know the type of (bool, bfloat16, int16, complex, float8, ...;
/// which ones depends on its version): their bytes. Tensors of types that Gloo knows pass through.
class ByteViews {
 public:
  /// Whether any of the tensors needs a stand-in.
  static bool needed(const std::vector<at::Tensor>& tensors);
  static bool needed(const at::Tensor& tensor);

  at::Tensor input(const at::Tensor& tensor);
  at::Tensor output(const at::Tensor& tensor);
  std::vector<at::Tensor> inputs(const std::vector<at::Tensor>& tensors);
  std::vector<at::Tensor> outputs(const std::vector<at::Tensor>& tensors);

  /// Copies what could not be aliased back.
  std::function<void()> finish() const;

 private:
  at::Tensor bytes(const at::Tensor& tensor, HostView::Use use);
  std::shared_ptr<std::vector<HostView>> copies_ = std::make_shared<std::vector<HostView>>();
};

}  // namespace switchml
