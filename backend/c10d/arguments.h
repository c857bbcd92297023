// What the arguments of a call must be, before it is counted or anything of it is sent.
#pragma once

#include <string>
#include <vector>

#include "c10d/call_table.h"
#include "c10d/compat.h"
#include "store/rendezvous.h"

namespace switchml {

/// The checks of one call on one rank. What is not allowed is a RuntimeError in the words of Gloo's refusals: programs
/// and PyTorch's own tests catch those. c10d has most of the words for all backends.
class Arguments {
 public:
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<Tensors>;

  Arguments(Call call, const GroupInfo& group) : call_(call), group_(group) {}

  void all_reduce(const Tensors& tensors, const c10d::ReduceOp& op) const;
  void all_reduce_coalesced(const Tensors& tensors) const;
  void reduce(const Tensors& tensors, const c10d::ReduceOptions& opts) const;
  /// The types must have the operation.
  void reducible(const Tensors& tensors, const c10d::ReduceOp& op) const;
  void reduce_scatter(const Tensors& outputs, const TensorLists& inputs) const;
  void reduce_scatter_tensors(const Tensors& outputs, const Tensors& inputs) const;

  void broadcast(const Tensors& tensors, const c10d::BroadcastOptions& opts) const;
  void all_gather(const TensorLists& outputs, const Tensors& inputs) const;
  void all_gather_coalesced(const TensorLists& outputs, const Tensors& inputs) const;
  void all_gather_into_tensors(const Tensors& outputs, const Tensors& inputs) const;
  /// The root's call.
  void gather_single(const at::Tensor& output, const at::Tensor& input) const;
  void gather(const TensorLists& outputs, const Tensors& inputs, int64_t root) const;
  void scatter(const Tensors& outputs, const TensorLists& inputs, int64_t root) const;
  void all_to_all_single(const at::Tensor& output, const at::Tensor& input, const std::vector<int64_t>& output_splits,
                         const std::vector<int64_t>& input_splits) const;
  void all_to_all(const Tensors& outputs, const Tensors& inputs) const;
  /// No two elements of an output may share memory: what is written to one would change another.
  void own_elements(const Tensors& outputs) const;

  void send(const Tensors& tensors, int destination, int tag) const;
  void recv(const Tensors& tensors, int source, int tag) const;
  void recv_any_source(const Tensors& tensors, int tag) const;

 private:
  [[noreturn]] void refuse(const std::string& why) const;
  void defined(const Tensors& tensors) const;
  void defined(const TensorLists& lists) const;
  void host(const Tensors& tensors) const;
  void root_rank(int64_t rank) const;
  void dense(const Tensors& tensors) const;
  void like(const Tensors& tensors, const at::Tensor& model) const;
  void pairs(const Tensors& outputs, const Tensors& inputs) const;
  void one_list(const TensorLists& lists, const char* kind, const at::Tensor& model) const;
  void same_type(const at::Tensor& output, const at::Tensor& input) const;
  void splits(const std::vector<int64_t>& sizes, const at::Tensor& tensor) const;
  void message(const Tensors& tensors, int tag) const;
  void peer(int rank) const;
  void other(int rank) const;

  const Call call_;
  const GroupInfo& group_;
};

}  // namespace switchml
