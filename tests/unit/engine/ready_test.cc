// Inputs that become ready piece by piece, and results that are of use before all of them is there.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>

#include "tensors.h"

namespace switchml::testing {
namespace {

constexpr int kReadyWorkers = 3;

/// A sum whose inputs become ready while it runs. What is not ready is NaN, which would show in every result.
class PieceByPiece {
 public:
  PieceByPiece(const ClusterOptions& options, const Tensors<float>& inputs, const Tensors<float>& sums)
      : cluster_(options), inputs_(inputs), sums_(sums) {
    for (size_t w = 0; w < inputs.size(); ++w) {
      given_[w].assign(count(), std::numeric_limits<float>::quiet_NaN());
      got_[w].resize(count());
      Collective c = in_place(ReduceOp::kSum, ElementType::kFloat32, given_[w]);
      c.operands()->output.data = got_[w].data();
      c.ready = &ready_[w];
      c.written = &written_[w];
      cluster_.submit(static_cast<int>(w), c);
    }
  }

  void run() {
    std::mt19937 random(7);
    for (int i = 0; i < 100000 && !cluster_.all_done(); ++i) {
      raise(random() % kReadyWorkers, random() % 700);
      cluster_.round();
      for (size_t w = 0; w < kReadyWorkers; ++w) {
        const auto there = static_cast<std::ptrdiff_t>(written_[w].elements());
        ASSERT_TRUE(std::equal(got_[w].begin(), got_[w].begin() + there, sums_[w].begin())) << "of " << there;
      }
    }
    for (size_t w = 0; w < kReadyWorkers; ++w) {
      EXPECT_EQ(written_[w].elements(), count());
      EXPECT_EQ(got_[w], sums_[w]) << "worker " << w;
    }
  }

 private:
  size_t count() const { return inputs_[0].size(); }
  void raise(size_t w, size_t by) {
    const size_t from = ready_[w].elements(), until = std::min(count(), from + by);
    std::copy_n(inputs_[w].data() + from, until - from, given_[w].data() + from);
    ready_[w].raise(until);
  }

  Cluster cluster_;
  const Tensors<float>& inputs_;
  const Tensors<float>& sums_;
  std::array<std::vector<float>, kReadyWorkers> given_, got_;
  std::array<Watermark, kReadyWorkers> ready_;
  std::array<ResultWatermark, kReadyWorkers> written_;
};

class Ready : public ::testing::TestWithParam<std::tuple<bool, int>> {};
INSTANTIATE_TEST_SUITE_P(Formats, Ready, ::testing::Combine(::testing::Bool(), ::testing::Values(1, 2)));

TEST_P(Ready, PieceByPieceTheBitsAreThoseOfTheWhole) {
  ClusterOptions options;
  options.workers = kReadyWorkers;
  options.exact = std::get<0>(GetParam());
  options.shards = std::get<1>(GetParam());
  options.slots = 16;
  options.faults.loss = 0.02;
  for (const size_t count : {size_t{1}, size_t{256}, size_t{700}, size_t{20011}}) {
    const Tensors<float> inputs = random_floats(kReadyWorkers, count, 5);
    Tensors<float> sums = inputs;
    Cluster whole(options);
    all_reduce(whole, ReduceOp::kSum, ElementType::kFloat32, sums);
    PieceByPiece(options, inputs, sums).run();
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace switchml::testing
