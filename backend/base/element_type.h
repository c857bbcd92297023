// The element types that the engine knows, free of torch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace switchml {

/// Values are part of what ranks compare with each other: never renumber.
enum class ElementType : uint8_t {
  kFloat32 = 0,
  kFloat16 = 1,
  kBFloat16 = 2,
  kInt32 = 3,
  kInt8 = 4,
  kUInt8 = 5,
  kInt16 = 6,
  kInt64 = 7,
};
inline constexpr int kElementTypes = 8;

inline constexpr size_t element_bytes(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
    case ElementType::kInt32: return 4;
    case ElementType::kFloat16:
    case ElementType::kBFloat16:
    case ElementType::kInt16: return 2;
    case ElementType::kInt8:
    case ElementType::kUInt8: return 1;
    case ElementType::kInt64: return 8;
  }
  return 0;
}

inline constexpr bool is_floating(ElementType type) {
  return type == ElementType::kFloat32 || type == ElementType::kFloat16 || type == ElementType::kBFloat16;
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
  }
  return "?";
}

}  // namespace switchml
