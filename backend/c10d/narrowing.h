// Tensors of float32 as narrow terms of a sum, and back (kernels/narrow.h, kernels/narrow_floats.h).
#pragma once

#include <optional>
#include <string>

#include "c10d/compat.h"

namespace switchml {

/// Rounds source + error to `terms`, and keeps in `error` what is lost. Terms beyond the source's are zeros.
/// `format`: "bfloat16", with terms of that type; or "float8_e4m3fn" or "int8", with terms of bytes, in whole blocks.
/// All are contiguous tensors of the host, `source` and `error` float32 of one size. Throws ValueError for others, and
/// where `terms` have no room. Needs no interpreter; thread-safe for different tensors.
void narrow_tensor(const at::Tensor& source, const std::optional<at::Tensor>& error, const at::Tensor& terms,
                   const std::string& format);

/// The inverse: as many float32 as `output` has.
void widen_tensor(const at::Tensor& terms, const at::Tensor& output, const std::string& format);

}  // namespace switchml
