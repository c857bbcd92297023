// Takes the place of RDMA where this is built without libibverbs.
#include "transport/rdma/rdma.h"

namespace switchml {

namespace {
Status none() { return {Code::kUnsupported, "this build has no RDMA; install libibverbs-dev and build again"}; }
}  // namespace

Result<std::unique_ptr<Transport>> make_rdma_transport(const RdmaOptions& /*options*/) { return none(); }
Result<std::unique_ptr<Transport>> make_places_transport(const CardOptions& /*options*/) { return none(); }

}  // namespace switchml
