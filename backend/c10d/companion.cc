#include "c10d/companion.h"

#include <atomic>
#include <utility>

#include "base/log.h"

namespace switchml {

c10::intrusive_ptr<compat::Base> Companion::get() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (group_) return group_;
  if (!factory_) throw_status(core_->closed(), "switchml: the companion group of " + core_->group().name);
  group_ = factory_();
  return group_;
}

c10::intrusive_ptr<compat::Base> Companion::existing() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return group_;
}

void Companion::release() {
  c10::intrusive_ptr<compat::Base> group;
  Factory factory;
  const std::lock_guard<std::mutex> lock(mutex_);
  group.swap(group_);
  factory.swap(factory_);
}

namespace {

struct Composition {
  std::atomic<size_t> unfinished;
  std::atomic<bool> ended{false};
  std::vector<c10::intrusive_ptr<c10d::Work>> parts;
  std::function<void()> finish;
  c10::intrusive_ptr<SwitchWork> work;
  at::ThreadLocalState thread_state;
};

/// Runs on a completion thread, once: when every part's future is set, or with the error of the first that failed.
void complete(Composition& composition, std::exception_ptr error) {
  const at::ThreadLocalStateGuard guard(composition.thread_state);
  try {
    for (const auto& part : composition.parts) {
      if (!error) part->wait();
    }
    if (!error && composition.finish) {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      composition.finish();
    }
  } catch (...) {
    error = std::current_exception();
  }
  composition.parts.clear();
  composition.finish = nullptr;
  const c10::intrusive_ptr<SwitchWork> work = std::move(composition.work);
  try {
    if (error) {
      work->fail(error);
    } else {
      work->succeed();
    }
  } catch (const std::exception& thrown) {
    SWITCHML_LOG(kError) << work->context() << ": a callback of the future threw: " << thrown.what();
  }
}

}  // namespace

c10::intrusive_ptr<c10d::Work> Companion::compose(Call call, c10d::OpType type,
                                                  std::vector<c10::intrusive_ptr<c10d::Work>> parts,
                                                  std::vector<at::Tensor> outputs, std::function<void()> finish) {
  auto composition = std::make_shared<Composition>();
  composition->unfinished.store(parts.size() + 1);
  composition->parts = std::move(parts);
  composition->finish = std::move(finish);
  // No title: the parts appear in a profile themselves.
  auto work = c10::make_intrusive<SwitchWork>(core_->group().rank, type, nullptr, core_->context(call),
                                              core_->sequence(), std::move(outputs), std::vector<at::Tensor>());
  composition->work = work;
  const auto end = [composition, core = core_](std::exception_ptr error) {
    if (composition->ended.exchange(true)) return;
    core->pool().post([composition, error = std::move(error)] { complete(*composition, error); });
  };
  const auto one_less = [composition, end] {
    if (composition->unfinished.fetch_sub(1) == 1) end(nullptr);
  };
  for (const auto& part : std::vector<c10::intrusive_ptr<c10d::Work>>(composition->parts)) {
    part->getFuture()->addCallback([one_less, end](c10::ivalue::Future& future) {
      if (future.hasError()) end(future.exception_ptr());
      one_less();
    });
  }
  one_less();
  return work;
}

// ---- ByteViews ----

bool ByteViews::needed(const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided) return false;
  switch (tensor.scalar_type()) {
    case at::kFloat:
    case at::kDouble:
    case at::kHalf:
    case at::kChar:
    case at::kByte:
    case at::kInt:
    case at::kLong: return false;
    default: return true;
  }
}

bool ByteViews::needed(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (needed(tensor)) return true;
  }
  return false;
}

at::Tensor ByteViews::bytes(const at::Tensor& tensor, HostView::Use use) {
  if (!needed(tensor)) return tensor;
  const at::AutoDispatchBelowADInplaceOrView guard;
  HostView view(tensor, use);
  const at::Tensor host = view.host();
  copies_->push_back(std::move(view));
  // The first dimension stays: alltoall_base splits along it.
  const int64_t rows = host.dim() == 0 ? 1 : host.size(0);
  const int64_t row_bytes = rows == 0 ? 0 : static_cast<int64_t>(host.nbytes()) / rows;
  if (host.numel() == 0) return at::empty({rows, 0}, host.options().dtype(at::kByte));
  return host.view({rows, host.numel() / rows}).view(at::kByte).view({rows, row_bytes});
}

at::Tensor ByteViews::input(const at::Tensor& tensor) { return bytes(tensor, HostView::Use::kRead); }
at::Tensor ByteViews::output(const at::Tensor& tensor) { return bytes(tensor, HostView::Use::kReadWrite); }

std::vector<at::Tensor> ByteViews::inputs(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& tensor : tensors) result.push_back(input(tensor));
  return result;
}

std::vector<at::Tensor> ByteViews::outputs(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& tensor : tensors) result.push_back(output(tensor));
  return result;
}

std::function<void()> ByteViews::finish() const {
  return [copies = copies_] {
    for (HostView& view : *copies) view.write_back();
  };
}

}  // namespace switchml
