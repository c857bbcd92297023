// How much memory the code under test holds: every block that it takes is counted on the account of the node (nodes.h)
// that runs at that moment, and taken off it when it is freed, by whomever. heap_count.cc replaces operator new for
// that; where it is not linked (sanitizers have an operator new of their own) all accounts stay empty.
#pragma once

#include <cstddef>

#include "nodes.h"
#include "record.h"

namespace switchml::sim {

struct Heap {
  size_t bytes = 0;
  size_t blocks = 0;
};

inline constexpr int kSimulator = kNodes;   // Its own account.
inline Heap heap_accounts[kSimulator + 1];  // Index: node.
inline int heap_account = kSimulator;       // The account that pays now.

/// Charges allocations of its lifetime to this account.
class Charge {
 public:
  explicit Charge(int account) : before_(heap_account) { heap_account = account; }
  ~Charge() { heap_account = before_; }
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;

 private:
  const int before_;
};

/// Breaks the rule of memory if the account has grown by more than that.
void check_heap(Record* record, int account, const Heap& before, const Heap& growth, const char* who);

}  // namespace switchml::sim
