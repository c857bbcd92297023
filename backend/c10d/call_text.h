// What a call was given, in words: for errors, and for ranks to compare.
#pragma once

#include <string>
#include <vector>

#include "c10d/compat.h"

namespace switchml {

/// As Python names it: "float32", "bool".
std::string type_name(at::ScalarType type);

/// "float32, 100 + 20 elements", "sparse float32, ...", or "no tensors". The type is the first one's; one that differs
/// is named with its count. Of more than eight tensors the rest is a number and a hash.
std::string tensors_text(const std::vector<at::Tensor>& tensors);

}  // namespace switchml
