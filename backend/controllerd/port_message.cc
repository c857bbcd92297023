#include "controllerd/port_message.h"

#include "socket/address.h"

namespace switchml {

Result<controller::SwitchPort> switch_port_of(const v1::SwitchPlace& message) {
  auto endpoint = literal_address(message.address(), 0);
  if (!endpoint.ok()) return endpoint.status();
  if (port_of(endpoint.value()) == 0) {
    return Status(Code::kInvalidArgument, "\"" + message.address() + "\" has no UDP port; allowed is ADDRESS:PORT");
  }
  controller::SwitchPort place;
  place.endpoint = endpoint.value();
  place.mac = message.mac();
  place.port = message.port();
  return place;
}

v1::SwitchPlace message_of(const controller::SwitchPort& place) {
  v1::SwitchPlace message;
  message.set_address(to_string(place.endpoint));
  message.set_mac(place.mac);
  message.set_port(place.port);
  return message;
}

}  // namespace switchml
