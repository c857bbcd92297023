// The element types that the engine knows, free of torch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace switchml {

/// Values are part of what ranks compare with each other: never renumber.
enum class ElementType : uint8_t {  // [EXACT-6]
  kFloat32 = 0,
  kFloat16 = 1,
  kBFloat16 = 2,
  kInt32 = 3,
  kInt8 = 4,
  kUInt8 = 5,
  kInt16 = 6,
  kInt64 = 7,
  kFloat64 = 8,
  kBool = 9,  // a byte: 0 is false
};
inline constexpr int kElementTypes = 10;

inline constexpr size_t element_bytes(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
    case ElementType::kInt32: return 4;
    case ElementType::kFloat16:
    case ElementType::kBFloat16:
    case ElementType::kInt16: return 2;
    case ElementType::kInt8:
    case ElementType::kUInt8:
    case ElementType::kBool: return 1;
    case ElementType::kInt64:
    case ElementType::kFloat64: return 8;
  }
  return 0;
}

/// Words per int64 element: three limbs of at most 22 bits. Sums of up to 1,024 workers cannot overflow a limb's 32
/// bits, so the sum is exact modulo 2^64.
inline constexpr size_t kInt64Words = 3;

/// Words of a packet that one element takes. Precondition: integer switches take the type.
inline constexpr size_t element_words(ElementType type) { return type == ElementType::kInt64 ? kInt64Words : 1; }

inline constexpr bool is_floating(ElementType type) {
  return type == ElementType::kFloat32 || type == ElementType::kFloat16 || type == ElementType::kBFloat16 ||
         type == ElementType::kFloat64;
}

inline constexpr const char* to_string(ElementType type) {
  switch (type) {
    case ElementType::kFloat32: return "float32";
    case ElementType::kFloat16: return "float16";
    case ElementType::kBFloat16: return "bfloat16";
    case ElementType::kInt32: return "int32";
    case ElementType::kInt8: return "int8";
    case ElementType::kUInt8: return "uint8";
    case ElementType::kInt16: return "int16";
    case ElementType::kInt64: return "int64";
    case ElementType::kFloat64: return "float64";
    case ElementType::kBool: return "bool";
  }
  return "?";
}

}  // namespace switchml
