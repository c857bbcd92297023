// What a call of a small tensor must not cost: memory for what is seldom asked for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "fixture.h"

namespace {
thread_local size_t allocations = 0;
}  // namespace

// In line, compilers take these for mismatched.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__)
constexpr bool kCounts = false;
#else
constexpr bool kCounts = true;
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(std::max<size_t>(bytes, 1))) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif

namespace switchml {
namespace {

TEST(SmallCall, TakesFewAllocations) {
  if (!kCounts) GTEST_SKIP() << "sanitizers have an operator new of their own";
  const Cluster alone(1);
  TensorList tensors{counting(16)};
  size_t fewest = SIZE_MAX;
  for (int call = 0; call < 100; ++call) {  // At times a log or a queue grows.
    const size_t before = allocations;
    alone[0].allreduce(tensors)->wait();
    fewest = std::min(fewest, allocations - before);
  }
  EXPECT_GT(fewest, 0U);
  EXPECT_LE(fewest, 3U) << "the call, its work, and the list of its results";
}

}  // namespace
}  // namespace switchml
