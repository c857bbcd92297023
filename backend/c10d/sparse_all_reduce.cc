// all_reduce of sparse tensors. The ranks gather their numbers of entries, then where these are. So all know the union,
// and reduce its values as those of any other tensor: zeros where a rank has none.
#include <algorithm>
#include <memory>
#include <utility>

#include "c10d/call_text.h"
#include "c10d/process_group.h"

namespace switchml {

using Tensors = ProcessGroupSwitchML::Tensors;

namespace {

/// Places are numbers: those of the elements along the sparse dimensions.
class SparseSum {
 public:
  SparseSum(const Tensors& tensors, int ranks) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    at::Tensor mine = tensors[0];
    for (size_t i = 1; i < tensors.size(); ++i) mine = at::add(mine, tensors[i]);
    mine_ = mine.coalesce();
    int64_t stride = 1;
    places_ = at::zeros({count()}, at::kLong);
    for (int64_t d = mine_.sparse_dim() - 1; d >= 0; stride *= mine_.size(d--))
      places_.add_(mine_.indices()[d], stride);
    own_count = at::full({1}, count(), at::kLong);
    counts = at::zeros({ranks}, at::kLong);
  }

  /// Once the counts of all are known.
  void know_counts() {
    const int64_t most = counts.max().item<int64_t>();
    own_places = at::zeros({most}, at::kLong);
    own_places.narrow(0, 0, count()).copy_(places_);
    places_of_all = at::zeros({counts.numel(), most}, at::kLong);
  }

  /// Once the places of all are known: the result, with this rank's values.
  at::Tensor result() const {
    Tensors all;
    for (int64_t rank = 0; rank < counts.numel(); ++rank) {
      all.push_back(places_of_all[rank].narrow(0, 0, counts[rank].item<int64_t>()));
    }
    const at::Tensor places = std::get<0>(at::_unique(at::cat(all)));
    std::vector<int64_t> shape = mine_.values().sizes().vec();
    shape[0] = places.numel();
    const at::Tensor values = at::zeros(shape, mine_.values().options());
    values.index_copy_(0, at::searchsorted(places, places_), mine_.values());
    return at::_sparse_coo_tensor_unsafe(indices_of(places), values, mine_.sizes())._coalesced_(true);
  }

  at::Tensor own_count, counts;          // Of entries; by rank.
  at::Tensor own_places, places_of_all;  // As many of each rank as the longest list has.

 private:
  int64_t count() const { return mine_._nnz(); }
  at::Tensor indices_of(const at::Tensor& places) const {
    at::Tensor indices = at::empty({mine_.sparse_dim(), places.numel()}, at::kLong);
    at::Tensor rest = places;
    for (int64_t d = mine_.sparse_dim() - 1; d >= 0; --d) {
      indices[d].copy_(at::remainder(rest, mine_.size(d)));
      rest = at::floor_divide(rest, mine_.size(d));
    }
    return indices;
  }

  at::Tensor mine_;
  at::Tensor places_;
};

std::string shape_text(const at::Tensor& tensor) {
  return c10::str(tensor.sizes()) + " with " + std::to_string(tensor.sparse_dim()) + " sparse dimensions";
}

}  // namespace

ProcessGroupSwitchML::WorkPtr ProcessGroupSwitchML::all_reduce_sparse(Call call, const Tensors& tensors,
                                                                      const c10d::AllreduceOptions& opts) {
  EngineCall counting = reduction(call, c10d::OpType::ALLREDUCE, tensors, opts.reduceOp, Terms::of(opts));
  counting.agree_about(std::string(operation_name(opts.reduceOp)) + ", " + tensors_text({tensors[0]}) + " of " +
                       shape_text(tensors[0]));
  const auto sum = std::make_shared<SparseSum>(tensors, size_);
  counting.gather_into(sum->own_count, sum->counts);
  counting.then([sum, tensors](EngineCall& placing) {
    sum->know_counts();
    placing.gather_into(sum->own_places, sum->places_of_all);
    placing.then([sum, tensors](EngineCall& adding) {
      const at::Tensor result = sum->result();
      adding.in_place(result.values());
      for (const at::Tensor& tensor : tensors) adding.copy(result, tensor);
    });
  });
  counting.show_inputs(tensors);
  return remember(counting.issue(tensors));
}

}  // namespace switchml
