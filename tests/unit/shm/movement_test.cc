// Collectives that move bytes through memory (engine/engine.h, Movement), over boards of several shapes.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <numeric>
#include <random>

#include "integers.h"
#include "shm/engine.h"

namespace switchml::shm {
namespace {

using Buffer = std::vector<uint8_t>;

/// What a rank has, of which no two ranks have the same.
Buffer bytes_of(int rank, size_t count, unsigned seed = 0) {
  std::mt19937 random(seed * 1000 + static_cast<unsigned>(rank));
  Buffer bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

Buffer joined(const std::vector<Buffer>& all) {
  Buffer result;
  for (const Buffer& one : all) result.insert(result.end(), one.begin(), one.end());
  return result;
}

/// Engines of all ranks over one segment.
class Movers {
 public:
  explicit Movers(const BoardShape& shape) : shape_(shape) {
    auto segment = Segment::create(shape.bytes());
    EXPECT_TRUE(segment.ok());
    segment_ = std::make_shared<Segment>(std::move(segment.value()));
    for (int rank = 0; rank < shape.ranks; ++rank) {
      engines_.push_back(start_memory_engine({segment_, shape, rank, [](const Status&) {}}));
    }
  }
  int ranks() const { return shape_.ranks; }
  /// A call of one rank under way; it ends with this object.
  void call(int rank, Collective collective) {
    collective.type = ElementType::kUInt8;
    collective.title = "movement";
    pending_.push_back(testing::end_of(&collective));
    engines_[static_cast<size_t>(rank)]->submit(std::move(collective));
  }
  std::vector<Status> ends() {
    std::vector<Status> ends;
    for (auto& one : pending_) {
      const bool ended = one.wait_for(std::chrono::seconds(60)) == std::future_status::ready;
      ends.push_back(ended ? one.get() : Status(Code::kInternal, "it does not end"));
    }
    pending_.clear();
    return ends;
  }
  void expect_all_ok() {
    for (const Status& end : ends()) ASSERT_TRUE(end.ok()) << end.to_string();
  }
  Engine& engine(int rank) { return *engines_[static_cast<size_t>(rank)]; }

 private:
  const BoardShape shape_;
  std::shared_ptr<Segment> segment_;
  std::vector<std::future<Status>> pending_;
  std::vector<std::unique_ptr<Engine>> engines_;
};

Collective gathering(const Buffer& mine, std::vector<Buffer>* all) {
  Gather gather;
  gather.input = mine.data();
  for (Buffer& one : *all) gather.receive_ranges.push_back({one.data(), 0, mine.size()});
  Collective call;
  call.count = mine.size();
  call.kind = gather;
  return call;
}

class Moves : public ::testing::TestWithParam<BoardShape> {
 protected:
  /// Around chunks, pieces of chunks, and the window of slots.
  std::vector<size_t> counts() const {
    const size_t chunk = GetParam().chunk_bytes;
    const size_t piece = chunk / static_cast<size_t>(GetParam().ranks);
    return {0, 1, 7, piece - 1, piece, piece + 1, chunk - 1, chunk, chunk + 1, 3 * chunk + 5, 20 * chunk + 3};
  }
};
// Of one rank, with and without a short board; pieces that are no whole lines; and what a group gets.
INSTANTIATE_TEST_SUITE_P(Boards, Moves,
                         ::testing::Values(BoardShape{1, 2, 64}, BoardShape{2, 1, 64}, BoardShape{3, 4, 128},
                                           BoardShape{5, 8, 256, 0, 64}, shape_for(2), shape_for(4)));

TEST_P(Moves, ABroadcastGivesEveryRankTheRootsBytes) {
  Movers movers(GetParam());
  for (const size_t count : counts()) {
    for (int root = 0; root < movers.ranks(); ++root) {
      std::vector<Buffer> got;
      for (int rank = 0; rank < movers.ranks(); ++rank) got.push_back(bytes_of(rank, count));
      const Buffer wanted = got[static_cast<size_t>(root)];
      for (int rank = 0; rank < movers.ranks(); ++rank) {
        Collective call;
        call.count = count;
        void* const mine = got[static_cast<size_t>(rank)].data();
        call.kind = Broadcast{root, rank == root ? mine : nullptr, rank == root ? nullptr : mine};
        movers.call(rank, std::move(call));
      }
      movers.expect_all_ok();
      for (const Buffer& mine : got) EXPECT_TRUE(mine == wanted) << count << " bytes from " << root;
    }
  }
}

TEST_P(Moves, AGatheringGivesEveryRankWhatAllHave) {
  Movers movers(GetParam());
  const auto ranks = static_cast<size_t>(movers.ranks());
  for (const size_t count : counts()) {
    std::vector<Buffer> inputs;
    for (int rank = 0; rank < movers.ranks(); ++rank) inputs.push_back(bytes_of(rank, count));
    std::vector<std::vector<Buffer>> got(ranks, std::vector<Buffer>(ranks, Buffer(count)));
    for (size_t rank = 0; rank < ranks; ++rank) {
      movers.call(static_cast<int>(rank), gathering(inputs[rank], &got[rank]));
    }
    movers.expect_all_ok();
    for (const auto& mine : got) EXPECT_TRUE(mine == inputs) << count;
  }
}

TEST_P(Moves, AGatheringInPlaceReadsWhatItWrites) {
  Movers movers(GetParam());
  const auto ranks = static_cast<size_t>(movers.ranks());
  const size_t count = 5 * GetParam().chunk_bytes + 1;
  std::vector<std::vector<Buffer>> got(ranks, std::vector<Buffer>(ranks, Buffer(count)));
  std::vector<Buffer> inputs;
  for (size_t rank = 0; rank < ranks; ++rank) {
    inputs.push_back(bytes_of(static_cast<int>(rank), count));
    got[rank][rank] = inputs[rank];
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    movers.call(static_cast<int>(rank), gathering(got[rank][rank], &got[rank]));
  }
  movers.expect_all_ok();
  for (const auto& mine : got) EXPECT_TRUE(mine == inputs);
}

TEST_P(Moves, ARankThatWantsNothingGetsNothing) {
  Movers movers(GetParam());
  const auto ranks = static_cast<size_t>(movers.ranks());
  const size_t count = 2 * GetParam().chunk_bytes + 9;
  std::vector<Buffer> inputs, got(ranks, Buffer(count)), none;
  for (size_t rank = 0; rank < ranks; ++rank) inputs.push_back(bytes_of(static_cast<int>(rank), count));
  for (size_t rank = 0; rank < ranks; ++rank) {
    movers.call(static_cast<int>(rank), gathering(inputs[rank], rank + 1 == ranks ? &got : &none));
  }
  movers.expect_all_ok();
  EXPECT_TRUE(got == inputs);
}

TEST_P(Moves, AScatterGivesEachRankItsOwnOfTheRoots) {
  Movers movers(GetParam());
  const auto ranks = static_cast<size_t>(movers.ranks());
  for (const size_t count : counts()) {
    for (size_t root = 0; root < ranks; ++root) {
      std::vector<Buffer> pieces, got(ranks, Buffer(count));
      for (size_t rank = 0; rank < ranks; ++rank) pieces.push_back(bytes_of(static_cast<int>(rank), count));
      for (size_t rank = 0; rank < ranks; ++rank) {
        Scatter scatter{static_cast<int>(root), {}, got[rank].data()};
        for (const Buffer& piece : pieces) {
          if (rank == root) scatter.inputs.push_back(piece.data());
        }
        Collective call;
        call.count = count;
        call.kind = scatter;
        movers.call(static_cast<int>(rank), std::move(call));
      }
      movers.expect_all_ok();
      EXPECT_TRUE(got == pieces) << count << " bytes from " << root;
    }
  }
}

/// Rank r sends sizes[r][s] bytes to rank s.
using Sizes = std::vector<std::vector<size_t>>;

/// What rank `rank` calls, which says `said` of itself; others learn from that what to expect.
Collective exchange(const Sizes& sizes, size_t rank, const std::vector<size_t>& said, const Buffer& input,
                    std::vector<Buffer>* got) {
  Exchange call;
  call.input = input.data();
  call.send_count = input.size();
  call.sizes.assign(said.begin(), said.end());
  call.on_sizes_known = [&sizes, rank, got](const std::vector<uint64_t>& of_all) -> Result<ExchangePlan> {
    const size_t ranks = sizes.size();
    ExchangePlan plan;
    for (size_t from = 0; from < ranks; ++from) {
      const auto begin = of_all.begin() + static_cast<std::ptrdiff_t>(from * ranks);
      if (!std::equal(sizes[from].begin(), sizes[from].end(), begin)) return Status(Code::kMismatch, "they differ");
      const auto before = [&](size_t to) {
        return static_cast<size_t>(std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(to), uint64_t{0}));
      };
      plan.receive_ranges.push_back({(*got)[from].data(), before(rank), before(rank + 1)});
      plan.count = std::max(plan.count, before(ranks));
    }
    return plan;
  };
  Collective collective;
  collective.kind = call;
  return collective;
}

TEST_P(Moves, AnExchangeOfUnlikePartsIsArrangedFirst) {
  Movers movers(GetParam());
  const auto ranks = static_cast<size_t>(movers.ranks());
  std::mt19937 random(5);
  for (const size_t most : counts()) {
    Sizes sizes(ranks, std::vector<size_t>(ranks));
    std::vector<std::vector<Buffer>> parts(ranks), got(ranks);
    for (size_t from = 0; from < ranks; ++from) {
      for (size_t to = 0; to < ranks; ++to) {
        sizes[from][to] = random() % (most + 1) * (random() % 2);
        parts[from].push_back(bytes_of(static_cast<int>(from * ranks + to), sizes[from][to]));
      }
    }
    std::vector<Buffer> inputs;
    for (size_t rank = 0; rank < ranks; ++rank) {
      inputs.push_back(joined(parts[rank]));
      for (size_t from = 0; from < ranks; ++from) got[rank].emplace_back(sizes[from][rank]);
    }
    std::vector<std::vector<Buffer>> after(ranks, std::vector<Buffer>(ranks, Buffer(33)));
    const Buffer next = bytes_of(1, 33);
    for (size_t rank = 0; rank < ranks; ++rank) {
      const int r = static_cast<int>(rank);
      movers.call(r, exchange(sizes, rank, sizes[rank], inputs[rank], &got[rank]));
      movers.call(r, gathering(next, &after[rank]));  // which waits for what is being arranged
    }
    movers.expect_all_ok();
    for (size_t rank = 0; rank < ranks; ++rank) {
      for (size_t from = 0; from < ranks; ++from) {
        EXPECT_TRUE(got[rank][from] == parts[from][rank]) << from << " to " << rank << ", up to " << most;
        EXPECT_TRUE(after[rank][from] == next);
      }
    }
  }
}

TEST_P(Moves, AnExchangeThatCannotBeIsTheEndOfThatCallAlone) {
  Movers movers(GetParam());
  const auto ranks = static_cast<size_t>(movers.ranks());
  const Sizes sizes(ranks, std::vector<size_t>(ranks, 3));
  const Buffer input(3 * ranks);
  std::vector<Buffer> got(ranks, Buffer(3));
  for (size_t rank = 0; rank < ranks; ++rank) {
    std::vector<size_t> said = sizes[rank];
    if (rank + 1 == ranks) said.back() = 4;
    movers.call(static_cast<int>(rank), exchange(sizes, rank, said, input, &got));
  }
  for (const Status& end : movers.ends()) EXPECT_EQ(end.message(), "they differ");
  std::vector<std::vector<Buffer>> after(ranks, std::vector<Buffer>(ranks, Buffer(3)));
  const Buffer next = {1, 2, 3};
  for (size_t rank = 0; rank < ranks; ++rank) movers.call(static_cast<int>(rank), gathering(next, &after[rank]));
  movers.expect_all_ok();
  EXPECT_EQ(after[0], std::vector<Buffer>(ranks, next));
}

TEST(Movement, RanksThatMoveDifferentlyAreTold) {
  const Buffer input(100), longer(101);
  const auto different = [&](const std::function<Collective(std::vector<Buffer>*)>& other) {
    Movers movers(shape_for(2));
    std::vector<std::vector<Buffer>> got(2, std::vector<Buffer>(2, Buffer(101)));
    movers.call(0, gathering(input, &got[0]));
    movers.call(1, other(&got[1]));
    for (const Status& end : movers.ends()) EXPECT_EQ(end.code(), Code::kMismatch) << end.to_string();
  };
  different([&](std::vector<Buffer>* got) { return gathering(longer, got); });
  different([&](std::vector<Buffer>* got) {
    Collective call = gathering(input, got);
    call.kind = Broadcast{1, input.data(), nullptr};
    return call;
  });
  different([&](std::vector<Buffer>* got) {  // a sum of as many bytes
    Collective call;
    call.count = input.size();
    call.operands()->input = input.data();
    call.operands()->output = {got->front().data(), 0, input.size()};
    return call;
  });
  different([&](std::vector<Buffer>* got) {
    Collective call = gathering(input, got);
    Exchange exchanged;
    static_cast<Gather&>(exchanged) = *call.gather();
    exchanged.sizes = {1, 2};
    exchanged.on_sizes_known = [](const std::vector<uint64_t>&) { return ExchangePlan(); };
    call.kind = exchanged;
    return call;
  });
}

TEST(Movement, CountsBytes) {
  Movers movers(shape_for(2));
  const Buffer input(100);
  std::vector<std::vector<Buffer>> got(2, std::vector<Buffer>(2, Buffer(100)));
  for (int rank : {0, 1}) movers.call(rank, gathering(input, &got[static_cast<size_t>(rank)]));
  movers.expect_all_ok();
  uint64_t moved = 0, summed = 0;
  for (int shard = 0; shard < movers.engine(0).shards(); ++shard) {
    moved += movers.engine(0).counters(shard).bytes_moved_in_memory.get();
    summed += movers.engine(0).counters(shard).elements_summed_in_memory.get();
  }
  EXPECT_EQ(moved, 100U);
  EXPECT_EQ(summed, 0U);
}

}  // namespace
}  // namespace switchml::shm
