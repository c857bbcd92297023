#include "client/udp_reach.h"

#include <algorithm>

#include "client/control_client.h"
#include "client/switch_entry.h"
#include "socket/address.h"

namespace switchml {

namespace {

// Long enough for a busy host, and for lost packets.
constexpr Duration kPatience = seconds(2);
constexpr Duration kLastPatience = seconds(1);

/// Whether a switch answers a close of no session, which changes nothing.
bool answers(Transport& link, const Endpoint& to, const std::string& name, Time until,
             const std::function<Status()>& ended) {
  ControlClient client(link, to, name);
  client.wait_while(ended);
  return client.close({}, until).ok();
}

}  // namespace

bool takes_tcp_alone(Transport& packets, const SwitchAddress& address, Time deadline,
                     const std::function<Status()>& ended) {
  const auto within = [deadline](Duration patience) { return std::min(deadline, monotonic_now() + patience); };
  if (answers(packets, address.endpoint, address.name, within(kPatience), ended)) return false;
  const Endpoint by_tcp = with_carrier(address.endpoint, Carrier::kTcp);
  const auto stream = connect_to_switch(by_tcp, address.seal);
  if (!stream.ok() || !answers(*stream.value(), by_tcp, address.name, within(kPatience), ended)) return false;
  return !answers(packets, address.endpoint, address.name, within(kLastPatience), ended);
}

}  // namespace switchml
