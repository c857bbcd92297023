#include "shm/message.h"

namespace switchml::shm {

std::string describe(const Message& message) {
  const std::string peer = message.peer == kAnySource ? "any rank" : "rank " + std::to_string(message.peer);
  return (message.sends ? "send of " : "recv of ") + std::to_string(message.bytes) + " bytes " +
         (message.sends ? "to " : "from ") + peer + " with tag " + std::to_string(message.tag);
}

}  // namespace switchml::shm
