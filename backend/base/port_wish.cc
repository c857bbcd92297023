#include "base/port_wish.h"

#include "base/parse.h"

namespace switchml {

bool parse_port_wish(const std::string& text, PortWish* wish) {
  PortWish found;
  const size_t first = text.find(':');
  found.device = text.substr(0, first);
  if (first != std::string::npos) {
    const size_t second = text.find(':', first + 1);
    const auto port =
        parse_integer(text.substr(first + 1, second == std::string::npos ? second : second - first - 1), 1, 255);
    if (!port || found.device.empty()) return false;
    found.port = static_cast<int>(*port);
    if (second != std::string::npos) {
      const auto index = parse_integer(text.substr(second + 1), 0, 255);
      if (!index) return false;
      found.gid_index = static_cast<int>(*index);
    }
  }
  *wish = found;
  return true;
}

}  // namespace switchml
