// A worker in the middle of a sum, of integers or of elements, and datagrams of any content at any time, among them
// right results with bits flipped in one word of header or sum. (In several words errors can cancel; integer/witness.h
// says when.) The sum ends right or with an error, and it ends.
#include "../unit/engine/lone_shard.h"
#include "check.h"
#include "script.h"

namespace switchml::testing {
namespace {

using fuzz::check;

// Bits of Step::what.
// The result of contribution number `from`; the frame says which word to flip bits in, and which bits.
constexpr uint8_t kOnResult = 1;
constexpr uint8_t kTwice = 2;  // it arrives twice

class Worker {
 public:
  /// One sum in one stream, or two sums in two.
  Worker(bool two_streams, bool exact) : lone_(options(two_streams, exact)) {
    for (const size_t chunks : two_streams ? std::vector<size_t>{20, 2} : std::vector<size_t>{10}) {
      sums_.emplace_back();
      Sum& sum = sums_.back();
      for (size_t i = 0; i < chunks * 256; ++i) sum.tensor.push_back(static_cast<int32_t>(i * 2654435761U));
      sum.input = sum.tensor;
      sum.outcome = lone_.submit(in_place(ReduceOp::kSum, ElementType::kInt32, sum.tensor));
    }
    remember(lone_.step());
  }

  void step(const fuzz::Step& step) {
    remember(lone_.pass(microseconds(100) * step.time));
    Bytes frame = step.is_bare() ? step.frame : fuzz::sealed(step.frame);
    if ((step.what & kOnResult) != 0) {
      frame = result_of(contributions_[step.from % contributions_.size()]);
      const size_t word = step.frame.empty() ? 0 : step.frame[0] % (frame.size() / kWordBytes);
      for (size_t i = 0; i < kWordBytes && i + 1 < step.frame.size(); ++i)
        frame[word * kWordBytes + i] ^= step.frame[i + 1];
    }
    remember(lone_.deliver(std::vector<Bytes>((step.what & kTwice) != 0 ? 2 : 1, frame)));
    look();
  }

  /// Now only what is right arrives.
  void end() {
    for (int round = 0; round < 200 && !all_ended(); ++round) {
      std::vector<Bytes> results;
      for (const Bytes& frame : lone_.pass(milliseconds(10))) {
        if (is_contribution(frame)) results.push_back(result_of(frame));
      }
      lone_.deliver(results);
    }
    check(all_ended(), "the collectives end");
    look();
  }

 private:
  struct Sum {
    std::vector<int32_t> tensor, input;
    std::shared_ptr<std::vector<Status>> outcome;
  };

  static LoneOptions options(bool two_streams, bool exact) {
    LoneOptions out;
    out.exact = exact;
    if (two_streams) out.slots = kLeastSlotsForBulk;
    return out;
  }
  bool all_ended() const {
    return std::all_of(sums_.begin(), sums_.end(), [](const Sum& sum) { return !sum.outcome->empty(); });
  }
  void remember(const std::vector<Bytes>& sent) {
    for (const Bytes& frame : sent) {
      check(frame.size() <= wire::kExactHeaderBytes + 1024, "what is sent is bounded");
      if (is_contribution(frame) && contributions_.size() < 256) contributions_.push_back(frame);
    }
  }
  void look() const {
    for (const Sum& sum : sums_) {
      check(sum.outcome->size() <= 1, "a collective ends once");
      if (sum.outcome->size() == 1 && sum.outcome->front().ok()) {
        check(sum.tensor == sum.input, "a sum that is reported is right");
      }
    }
    check(lone_.failures.size() <= 1, "a shard fails once");
  }

  LoneShard lone_;
  std::deque<Sum> sums_;
  std::vector<Bytes> contributions_;
};

}  // namespace
}  // namespace switchml::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace switchml;
  const uint8_t last = size > 0 ? bytes[size - 1] : uint8_t{0};
  switchml::testing::Worker worker((last & 1) != 0, (last & 2) != 0);
  const uint8_t* at = bytes;
  fuzz::Step step;
  for (int steps = 0; steps < 100 && fuzz::next_step(&at, bytes + size, &step); ++steps) worker.step(step);
  worker.end();
  return 0;
}
