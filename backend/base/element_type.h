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
  kBool = 9,         // a byte: 0 is false
  kFloat8E4M3 = 10,  // torch's float8_e4m3fn: no infinities, and one NaN of each sign
  kFloat8E5M2 = 11,
  kScaledInt8 = 12,    // an element is a block of kScaledValues numbers under one scale: kernels/narrow_floats.h
  kScaledFloat8 = 13,  // the same of float8_e4m3fn
};
inline constexpr int kElementTypes = 14;

/// Numbers of an element that has a scale, and its bytes.
inline constexpr size_t kScaledValues = 64;
inline constexpr size_t kScaledBytes = 1 + kScaledValues;

inline constexpr size_t element_bytes(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
    case ElementType::kInt32: return 4;
    case ElementType::kFloat16:
    case ElementType::kBFloat16:
    case ElementType::kInt16: return 2;
    case ElementType::kInt8:
    case ElementType::kUInt8:
    case ElementType::kBool:
    case ElementType::kFloat8E4M3:
    case ElementType::kFloat8E5M2: return 1;
    case ElementType::kScaledInt8:
    case ElementType::kScaledFloat8: return kScaledBytes;
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

inline constexpr bool is_float8(ElementType type) {
  return type == ElementType::kFloat8E4M3 || type == ElementType::kFloat8E5M2;
}

/// Whether an element is a block of numbers under a scale.
inline constexpr bool is_scaled(ElementType type) {
  return type == ElementType::kScaledInt8 || type == ElementType::kScaledFloat8;
}

/// Numbers that an element stands for.
inline constexpr size_t values_per_element(ElementType type) { return is_scaled(type) ? kScaledValues : 1; }

inline constexpr bool is_floating(ElementType type) {
  return type == ElementType::kFloat32 || type == ElementType::kFloat16 || type == ElementType::kBFloat16 ||
         type == ElementType::kFloat64 || is_float8(type);
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
    case ElementType::kFloat8E4M3: return "float8_e4m3fn";
    case ElementType::kFloat8E5M2: return "float8_e5m2";
    case ElementType::kScaledInt8: return "blocks of int8";
    case ElementType::kScaledFloat8: return "blocks of float8_e4m3fn";
  }
  return "?";
}

}  // namespace switchml
