// The text of each refusal, on one rank; tests/python/test_refusals.py compares them with Gloo's.
#include "c10d/arguments.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fixture.h"

namespace switchml {
namespace {

using Lists = std::vector<TensorList>;

const GroupInfo kGroup{1, 3, "of three"};

Arguments of(Call call) { return {call, kGroup}; }

c10d::BroadcastOptions from(int64_t root) {
  c10d::BroadcastOptions options;
  options.rootRank = root;
  return options;
}

TensorList three(const at::Tensor& tensor) { return {tensor, tensor, tensor}; }

TEST(Arguments, NameTheCallTheValueAndWhatIsAllowed) {
  EXPECT_EQ(refusal_of([] { of(Call::kBroadcast).broadcast({counting(2)}, from(3)); }),
            "switchml broadcast: invalid root rank: 3; allowed: 0 to 2");
  EXPECT_EQ(refusal_of([] { of(Call::kSend).send({counting(2)}, 3, 0); }),
            "switchml send: invalid rank: 3; allowed: 0 to 2");
  EXPECT_EQ(refusal_of([] { of(Call::kRecv).recv({counting(2)}, 1, 0); }),
            "switchml recv: invalid rank: 1 is this one; allowed: another one");
  EXPECT_EQ(refusal_of([] { of(Call::kRecv).recv({counting(2)}, 0, -7); }),
            "switchml recv: Tag must be nonnegative: it is -7");
}

TEST(Arguments, MayBeGood) {
  const at::Tensor two = counting(2);
  EXPECT_EQ(thrown_by([&] {
              of(Call::kBroadcast).broadcast({two, two}, from(2));
              of(Call::kAllReduce).all_reduce({two, two}, c10d::ReduceOp::MAX);
              of(Call::kAllReduce).all_reduce({two.to_sparse()}, c10d::ReduceOp::SUM);
              of(Call::kAllReduceCoalesced).all_reduce_coalesced({two, counting(3)});
              of(Call::kAllReduce).reducible({counting(2, at::kInt)}, c10d::ReduceOp::BAND);
              of(Call::kAllGather).all_gather({three(two)}, {two});
              of(Call::kAllGatherCoalesced).all_gather_coalesced({{two}, {two}, {two}}, {two});
              of(Call::kAllGatherIntoTensor).all_gather_into_tensors({counting(6)}, {two});
              of(Call::kGather).gather({three(two)}, {two}, 1);
              of(Call::kGather).gather({}, {two}, 0);
              of(Call::kScatter).scatter({two}, {three(two)}, 1);
              of(Call::kScatter).scatter({two}, {}, 2);
              of(Call::kReduceScatter).reduce_scatter({two}, {{counting(1), two, counting(5)}});
              of(Call::kReduceScatterTensor).reduce_scatter_tensors({two}, {counting(6)});
              of(Call::kAllToAll).all_to_all(three(two), three(two));
              of(Call::kAllToAllSingle).all_to_all_single(counting(6), counting(6), {}, {});
              of(Call::kAllToAllSingle).all_to_all_single(counting(4), counting(3), {0, 0, 4}, {});
              of(Call::kAllToAllSingle).all_to_all_single(at::zeros({0}), at::zeros({3, 0}), {}, {});
              of(Call::kSend).send({counting(4).slice(0, 0, 4, 2)}, 2, 0);
            }),
            "");
}

TEST(Arguments, AreDefinedBeforeTheyAreLookedAt) {
  const at::Tensor none;
  for (const std::string& text : {
           refusal_of([&] { of(Call::kBroadcast).broadcast({none}, from(0)); }),
           refusal_of([&] { of(Call::kAllGather).all_gather({three(none)}, {counting(2)}); }),
           refusal_of([&] { of(Call::kScatter).scatter({none}, {}, 0); }),
           refusal_of([&] { of(Call::kAllToAllSingle).all_to_all_single(none, none, {}, {}); }),
           refusal_of([&] { of(Call::kRecvAnySource).recv_any_source({none}, 0); }),
       }) {
    EXPECT_TRUE(contains(text, ": a tensor is undefined; allowed: tensors on device cpu"));
  }
}

TEST(Arguments, HaveSplitsThatFitTheTensor) {
  const auto refused = [](std::vector<int64_t> splits) {
    return refusal_of([&] {
      of(Call::kAllToAllSingle).all_to_all_single(counting(6), counting(6), {2, 2, 2}, splits);
    });
  };
  EXPECT_TRUE(contains(refused({3, 3}),
                       "Number of tensor splits not equal to group size: the sizes are (3, 3), the tensor "
                       "has (6); allowed: 3 sizes, or none"));
  EXPECT_TRUE(contains(refused({3, 3, 3}), "Split sizes doesn't match total dim 0 size: the sizes are (3, 3, 3)"));
  // Newer PyTorch looks at the signs itself.
  EXPECT_TRUE(contains(refused({8, -1, -1}), "negative: the sizes are (8, -1, -1)"));
  EXPECT_TRUE(
      contains(refusal_of([] { of(Call::kAllToAllSingle).all_to_all_single(counting(4), counting(4), {}, {}); }),
               "the output has 4 elements and the input 4; allowed without split sizes: as many in both"));
}

TEST(Arguments, OfABitwiseReductionAreIntegers) {
  for (const auto type : {at::kFloat, at::kDouble, at::kComplexFloat}) {
    EXPECT_TRUE(contains(refusal_of([&] { of(Call::kReduce).reducible({counting(2, type)}, c10d::ReduceOp::BOR); }),
                         "switchml reduce: Cannot use ReduceOp.BOR with non-integral dtype "));
  }
}

}  // namespace
}  // namespace switchml
