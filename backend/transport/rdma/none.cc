// In place of RDMA, where this is built without libibverbs.
#include "transport/rdma/rdma.h"

namespace switchml {

Result<std::unique_ptr<Transport>> make_rdma_transport(const RdmaOptions& /*options*/) {
  return Status(Code::kUnsupported, "this build has no RDMA; install libibverbs-dev and build again");
}

}  // namespace switchml
