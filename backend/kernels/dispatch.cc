// Chooses the table of kernels, by the processor, once.
#include <atomic>
#include <cstdlib>

#include "base/assert.h"
#include "base/log.h"
#include "kernels/tables.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace switchml {

namespace {

#if defined(__x86_64__)
bool has_f16c() {  // Not every compiler's __builtin_cpu_supports knows this name.
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
bool has_avx2() { return __builtin_cpu_supports("avx2") && has_f16c(); }
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#else
bool has_avx2() { return false; }
bool has_avx512() { return false; }
#endif

std::string allowed_names() {
  std::string names = "auto";
  for (const Kernels* table : available_kernels()) names += std::string(", ") + table->name;
  return names;
}

const Kernels* choose() {
  const char* wanted = std::getenv("SWITCHML_KERNELS");
  const Result<const Kernels*> chosen = select_kernels(wanted == nullptr ? "auto" : wanted);
  if (chosen.ok()) return chosen.value();
  SWITCHML_LOG(kWarning) << "SWITCHML_KERNELS: " << chosen.status().message() << "; using the scalar kernels";
  return scalar_kernels();
}

}  // namespace

int float_row(ElementType type) {
  SWITCHML_ASSERT(is_floating(type) && !is_float8(type));
  if (type == ElementType::kFloat64) return 3;
  return static_cast<int>(type) - static_cast<int>(ElementType::kFloat32);
}

int integer_row(ElementType type) {
  SWITCHML_ASSERT(type >= ElementType::kInt32 && type <= ElementType::kInt16);
  return static_cast<int>(type) - static_cast<int>(ElementType::kInt32);
}

std::vector<const Kernels*> available_kernels() {
  const Kernels* const candidates[] = {
      has_avx512() ? avx512_kernels() : nullptr,
      has_avx2() ? avx2_kernels() : nullptr,
      neon_kernels(),
      scalar_kernels(),
  };
  std::vector<const Kernels*> tables;
  for (const Kernels* table : candidates) {
    if (table != nullptr) tables.push_back(table);
  }
  return tables;
}

Result<const Kernels*> select_kernels(const std::string& name) {
  const std::vector<const Kernels*> tables = available_kernels();
  if (name.empty() || name == "auto") return tables.front();
  for (const Kernels* table : tables) {
    if (name == table->name) return table;
  }
  return Status(Code::kInvalidArgument,
                "no kernels named \"" + name + "\" on this processor; allowed: " + allowed_names());
}

// Two threads may both choose, and choose the same. The lock of a static object could be held by one thread while
// another one forks: in the child it would never be released.
const Kernels& kernels() {
  static std::atomic<const Kernels*> chosen{nullptr};
  const Kernels* table = chosen.load(std::memory_order_acquire);
  if (table == nullptr) {
    table = choose();
    chosen.store(table, std::memory_order_release);
  }
  return *table;
}

}  // namespace switchml
