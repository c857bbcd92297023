// What lets Gloo move tensors of types that it does not know, and tensors that share memory.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "c10d/staging.h"

namespace switchml {

/// Stand-ins for tensors that Gloo moves but does not know the type of (bool, bfloat16, int16, complex, float8, ...;
/// which ones depends on its version): their bytes. Tensors with gaps between their elements are copied, since Gloo
/// does not look at strides. Other tensors pass through.
class ByteViews {
 public:
  /// `apart`: every tensor gets a copy, for calls in which Gloo would write to one while it reads another.
  explicit ByteViews(bool apart = false) : apart_(apart) {}

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
  const bool apart_;
  std::shared_ptr<std::vector<HostView>> copies_ = std::make_shared<std::vector<HostView>>();
};

}  // namespace switchml
