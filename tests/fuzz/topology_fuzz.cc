// The topology file: any text is read as a topology that keeps its promises, or refused by file and line.
#include "controllerd/topology_file.h"
#include "text_file.h"

namespace switchml {
namespace {

using fuzz::check;

void check_promises(const controller::Topology& topology) {
  const int count = static_cast<int>(topology.switches.size());
  check(count > 0, "there is a switch");
  for (int i = 0; i < count; ++i) {
    const auto way = controller::path_to_root(topology, i);
    check(!way.empty() && static_cast<int>(way.size()) <= count, "parents form no cycle");
  }
  for (const controller::WorkerSpec& worker : topology.workers) {
    check(worker.attached >= 0 && worker.attached < count, "a worker hangs at a switch");
    check(!worker.addresses.empty(), "a worker has an address");
  }
  check(topology.lease > Duration::zero(), "the lease is positive");
}

}  // namespace
}  // namespace switchml

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace switchml;
  static const fuzz::TextFile file;
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  // A token file may be any path of this machine; what is read must be the input alone.
  if (text.find("token_file") != std::string::npos && text.find_first_of("/\\") != std::string::npos) return -1;
  file.write(text);
  const auto read = read_topology(file.path());
  if (read.ok()) {
    check_promises(read.value());
  } else {
    fuzz::check(read.status().message().rfind(file.path(), 0) == 0, "errors begin with the file");
  }
  return 0;
}
