// What a lost switch is replaced with: a Gloo group that reduces the words which the switch would have reduced.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "c10d/compat.h"
#include "session/rank_reducer.h"

namespace switchml {

class GlooReducer final : public RankReducer {
 public:
  /// `group` is used for nothing else.
  explicit GlooReducer(c10::intrusive_ptr<compat::Base> group);
  /// Gloo may still wait for other ranks: then a thread of its own waits with it.
  ~GlooReducer() override;

  Status maximum(int64_t* values, size_t count) override;
  Status maximum(int32_t* values, size_t count) override;
  Status sum(int32_t* values, size_t count) override;
  void interrupt() override;

 private:
  struct Wait {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    bool interrupted = false;
    std::string error;
  };
  Status reduce(void* values, size_t count, at::ScalarType type, c10d::ReduceOp::RedOpType op);

  c10::intrusive_ptr<compat::Base> group_;
  const std::shared_ptr<Wait> wait_ = std::make_shared<Wait>();  // a late callback may outlive this
};

/// Destroys the group, whose destructor waits for its operations; after `limit` a thread of its own goes on waiting,
/// and false is returned.
bool destroy_within(c10::intrusive_ptr<compat::Base> group, std::chrono::milliseconds limit);

}  // namespace switchml
