// A hash of endpoints, for tables.
#pragma once

#include "base/fnv.h"
#include "socket/endpoint.h"

namespace switchml {

struct EndpointHash {
  size_t operator()(const Endpoint& endpoint) const {
    return fnv1a(endpoint.bytes, endpoint.size, kFnv1aStart + static_cast<uint64_t>(endpoint.carrier));
  }
};

}  // namespace switchml
