// How many descriptors this process may have.
#pragma once

#include <cstddef>

namespace switchml {

/// Raises the soft limit to `wanted`, or as far as the hard one allows; never lowers it. Returns the limit then, in
/// descriptors; SIZE_MAX: there is none, or it is not known. Thread-safe, but for others that set the limit meanwhile.
size_t allow_descriptors(size_t wanted);

}  // namespace switchml
