#include "c10d/staging.h"

#include <gtest/gtest.h>

#include "fixture.h"

namespace switchml {
namespace {

TEST(ElementTypeOfTensor, NamesWhatTheEngineKnows) {
  EXPECT_EQ(element_type(at::kFloat), ElementType::kFloat32);
  EXPECT_EQ(element_type(at::kHalf), ElementType::kFloat16);
  EXPECT_EQ(element_type(at::kBFloat16), ElementType::kBFloat16);
  EXPECT_EQ(element_type(at::kInt), ElementType::kInt32);
  EXPECT_EQ(element_type(at::kChar), ElementType::kInt8);
  EXPECT_EQ(element_type(at::kByte), ElementType::kUInt8);
  EXPECT_EQ(element_type(at::kShort), ElementType::kInt16);
  EXPECT_EQ(element_type(at::kLong), ElementType::kInt64);
  EXPECT_EQ(element_type(at::kDouble), ElementType::kFloat64);
  EXPECT_EQ(element_type(at::kBool), ElementType::kBool);
  EXPECT_FALSE(element_type(at::kComplexFloat).has_value());
}

TEST(RequireHost, AcceptsDenseAndSparseHostTensors) {
  EXPECT_EQ(thrown_by([] { require_host(at::zeros({2}), "all_reduce"); }), "");
  EXPECT_EQ(thrown_by([] { require_host(at::zeros({2}).to_sparse(), "all_reduce"); }), "");
  EXPECT_EQ(thrown_by([] { require_host(TensorList{}, "all_reduce"); }), "");
}

TEST(RequireHost, NamesTheCallAndTheDevice) {
  const at::Tensor elsewhere = at::empty({2}, at::device(at::kMeta));
  const std::string text = refusal_of([&] { require_host({at::zeros({2}), elsewhere}, "reduce_scatter"); });
  EXPECT_TRUE(contains(text, "switchml reduce_scatter: unsupported device type meta; allowed: cpu"));
  EXPECT_TRUE(contains(text, "cpu:switchml,cuda:nccl"));
}

TEST(RequireHost, RefusesAnUndefinedTensor) {
  EXPECT_TRUE(contains(refusal_of([] { require_host(at::Tensor(), "send"); }),
                       "switchml send: a tensor is undefined; allowed: tensors on device cpu"));
}

TEST(HostView, IsTheMemoryOfAContiguousTensor) {
  const at::Tensor tensor = counting(6).view({2, 3});
  HostView view(tensor, HostView::Use::kReadWrite);
  EXPECT_EQ(view.data(), tensor.data_ptr());
  EXPECT_EQ(view.count(), 6U);
  static_cast<float*>(view.data())[4] = 50;
  view.write_back();
  EXPECT_EQ(tensor[1][1].item<float>(), 50);
}

TEST(HostView, StartsWhereASliceDoes) {
  const at::Tensor all = counting(10);
  const HostView view(all.narrow(0, 4, 3), HostView::Use::kReadWrite);
  EXPECT_EQ(view.data(), static_cast<float*>(all.data_ptr()) + 4);
  EXPECT_EQ(view.count(), 3U);
}

TEST(HostView, ReadsStridedTensorsInLogicalOrder) {
  const at::Tensor rows = counting(6).view({2, 3});
  const at::Tensor columns = rows.t();
  const HostView view(columns, HostView::Use::kRead);
  EXPECT_NE(view.data(), columns.data_ptr());
  EXPECT_TRUE(view.host().is_contiguous());
  EXPECT_TRUE(same(view.host().view({6}), at::tensor({1.F, 4.F, 2.F, 5.F, 3.F, 6.F})));
}

TEST(HostView, WritesACopyBackOnlyWhereItShould) {
  for (const HostView::Use use : {HostView::Use::kRead, HostView::Use::kWrite, HostView::Use::kReadWrite}) {
    const at::Tensor all = counting(6);
    const at::Tensor even = all.view({3, 2}).select(1, 1);  // 2, 4, 6
    HostView view(even, use);
    view.host().fill_(9);
    EXPECT_TRUE(same(all, counting(6))) << "written before write_back()";
    view.write_back();
    const bool writes = use != HostView::Use::kRead;
    EXPECT_TRUE(same(even, writes ? at::full({3}, 9.F) : at::tensor({2.F, 4.F, 6.F})));
    EXPECT_TRUE(same(all.view({3, 2}).select(1, 0), at::tensor({1.F, 3.F, 5.F}))) << "neighbours changed";
  }
}

TEST(HostView, CopiesInWhatItReadsAndWrites) {
  const at::Tensor strided = counting(6).view({2, 3}).t();
  EXPECT_TRUE(same(HostView(strided, HostView::Use::kReadWrite).host(), strided));
}

TEST(HostView, ResolvesLazyNegativesAndConjugates) {
  const at::Tensor negative = at::_neg_view(counting(3));
  EXPECT_TRUE(negative.is_neg());
  const HostView negated(negative, HostView::Use::kRead);
  EXPECT_EQ(static_cast<const float*>(negated.data())[2], -3);
  const at::Tensor conjugate = at::conj(at::complex(counting(2), counting(2)));
  EXPECT_TRUE(conjugate.is_conj());
  const HostView resolved(conjugate, HostView::Use::kRead);
  EXPECT_EQ(static_cast<const c10::complex<float>*>(resolved.data())[1], c10::complex<float>(2, -2));
}

TEST(HostView, TakesScalarsAndNothing) {
  const at::Tensor scalar = at::scalar_tensor(7, at::kInt);
  const HostView one(scalar, HostView::Use::kReadWrite);
  EXPECT_EQ(one.count(), 1U);
  EXPECT_EQ(static_cast<const int*>(one.data())[0], 7);
  HostView none(at::empty({3, 0, 2}), HostView::Use::kReadWrite);
  EXPECT_EQ(none.count(), 0U);
  none.write_back();
}

TEST(HostView, IsHiddenFromAutograd) {
  const at::Tensor leaf = at::zeros({2, 3}).requires_grad_();
  const at::Tensor strided = leaf.t();
  const auto version = leaf._version();
  HostView view(strided, HostView::Use::kReadWrite);
  view.host().fill_(1);
  EXPECT_EQ(thrown_by([&] { view.write_back(); }), "");
  EXPECT_EQ(leaf._version(), version);
  EXPECT_EQ(leaf.sum().item<float>(), 6);
}

TEST(Overlap, ComparesMemoryNotValues) {
  const at::Tensor all = counting(10);
  const auto part = [&](int64_t begin, int64_t count) { return all.narrow(0, begin, count); };
  EXPECT_TRUE(overlap(all, all));
  EXPECT_TRUE(overlap(part(0, 5), part(4, 5)));
  EXPECT_TRUE(overlap(part(4, 5), part(0, 5)));
  EXPECT_TRUE(overlap(part(3, 1), all));
  EXPECT_FALSE(overlap(part(0, 5), part(5, 5)));
  EXPECT_FALSE(overlap(part(5, 5), part(0, 5)));
  EXPECT_FALSE(overlap(all, all.clone()));
  EXPECT_FALSE(overlap(part(3, 0), all));
  EXPECT_FALSE(overlap(all, part(3, 0)));
  EXPECT_TRUE(overlap(all.slice(0, 0, 6, 3), part(2, 1))) << "between two elements of a strided one";
  EXPECT_FALSE(overlap(all.slice(0, 0, 6, 3), part(4, 1)));
}

TEST(Footprint, SeesWhatOnePartWritesAndAnotherUses) {
  const at::Tensor all = counting(10);
  const auto part = [&](int64_t begin, int64_t count) { return all.narrow(0, begin, count); };
  EXPECT_TRUE(Footprint::clash({all, all}));
  EXPECT_TRUE(Footprint::clash({part(0, 6), counting(2), part(5, 5)}));
  EXPECT_FALSE(Footprint::clash({part(5, 5), counting(2), part(0, 5), part(3, 0)}));
  EXPECT_TRUE(Footprint::clash({part(0, 2), part(2, 2)}, {part(4, 2), part(1, 4)}));
  EXPECT_FALSE(Footprint::clash({part(0, 2), part(2, 2)}, {part(0, 2), part(2, 4)})) << "only with its own input";
  EXPECT_FALSE(Footprint::clash({counting(2), counting(2)}, {all, all})) << "only read";
  EXPECT_FALSE(Footprint::clash({}));
}

}  // namespace
}  // namespace switchml
