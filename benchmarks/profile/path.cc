#include "path.h"

namespace switchml::profile {

void Path::submit(Tensors& tensors) {
  left_ = static_cast<int>(tensors.size());
  for (size_t rank = 0; rank < tensors.size(); ++rank) {
    Collective collective;
    collective.operands()->input = collective.operands()->output.data = tensors[rank].data();
    collective.count = collective.operands()->output.end = tensors[rank].size();
    collective.done = [this](const Status& status) {
      --left_;
      if (status_.ok()) status_ = status;
    };
    submit_to(static_cast<int>(rank), std::move(collective));
  }
}

Result<std::unique_ptr<Path>> make_path(const PathOptions& options) {
  return options.name == "memory" ? make_memory_path(options) : make_switch_path(options);
}

}  // namespace switchml::profile
