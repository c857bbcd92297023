// Ranks that share memory (backend/shm).
#include "path.h"
#include "shm/local_rank.h"
#include "shm/segment.h"

namespace switchml::profile {

namespace {

class MemoryPath final : public Path {
 public:
  MemoryPath(shm::Segment segment, const shm::BoardShape& shape)
      : segment_(std::move(segment)), board_(shape, segment_.data()) {
    for (int rank = 0; rank < shape.ranks; ++rank) {
      members_.push_back(std::make_unique<shm::LocalRank>(board_, rank, [](const Status&) {}));
    }
  }

  void ranks_turn() override {
    now_ += microseconds(1);
    for (auto& member : members_) member->step(now_);
  }
  void switch_turn() override {}

  Work work() const override {
    Work work;
    for (const auto& member : members_) work.chunks += member->counters().chunks_completed.get();
    return work;
  }
  size_t chunk_bytes() const override { return board_.shape().chunk_bytes; }
  int slots() const override { return board_.shape().slots; }

 private:
  void submit_to(int rank, Collective collective) override {
    members_[static_cast<size_t>(rank)]->submit(std::move(collective));
  }

  shm::Segment segment_;
  const shm::Board board_;
  Time now_{seconds(1)};
  std::vector<std::unique_ptr<shm::LocalRank>> members_;
};

}  // namespace

Result<std::unique_ptr<Path>> make_memory_path(const PathOptions& options) {
  const shm::BoardShape shape = shm::shape_for(options.ranks);
  auto segment = shm::Segment::create(shape.bytes());
  if (!segment.ok()) return segment.status();
  return std::unique_ptr<Path>(std::make_unique<MemoryPath>(std::move(segment.value()), shape));
}

}  // namespace switchml::profile
