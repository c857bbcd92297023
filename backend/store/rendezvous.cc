#include "store/rendezvous.h"

namespace switchml {

Result<bool> Rendezvous::has_all(const std::vector<std::string>& keys) {
  const auto values = get_all(keys);
  if (values.ok()) return true;
  return values.status().code() == Code::kTimeout ? Result<bool>(false) : values.status();
}

Result<std::vector<std::string>> Rendezvous::get_all(const std::vector<std::string>& keys) {
  std::vector<std::string> values;
  for (const std::string& key : keys) {
    auto value = get(key, monotonic_now());
    if (!value.ok()) return value.status();
    values.push_back(std::move(value.value()));
  }
  return values;
}

}  // namespace switchml
