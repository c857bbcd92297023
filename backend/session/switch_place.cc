#include "session/switch_place.h"

#include <algorithm>
#include <utility>

#include "engine/engine.h"
#include "transport/address.h"
#include "transport/sockaddr.h"

namespace switchml {

namespace {

Blob place(const std::string& address, const std::string& name) {
  Blob blob;
  blob.set("address", address);
  blob.set("name", name);
  return blob;
}

}  // namespace

Result<Endpoint> address_of_rank_0(const Config& config, bool one_host) {
  return one_host ? resolve_address("127.0.0.1:0", "loopback") : announced_address(config.interface);
}

Result<Blob> named_switch(const Config& config, bool one_host) {
  auto endpoint = resolve_address(config.switch_address, "SWITCHML_SWITCH");
  if (!endpoint.ok()) return endpoint.status();
  if (port_of(endpoint.value()) == 0) {
    return Status(Code::kInvalidArgument,
                  "SWITCHML_SWITCH=\"" + config.switch_address +
                      "\" has port 0, where nothing can listen; allowed: ADDRESS:PORT with a port from 1 to 65535");
  }
  if (!one_host && is_loopback(endpoint.value())) {
    return Status(Code::kInvalidArgument, "SWITCHML_SWITCH=\"" + config.switch_address +
                                              "\" is a loopback address, but the ranks run on several hosts: give an "
                                              "address that all of them reach");
  }
  return place(to_string(endpoint.value()), config.switch_address);
}

Result<Blob> embedded_switch(const Config& config, bool one_host, const std::string& group,
                             std::unique_ptr<SwitchServer>* server) {
  auto listen = address_of_rank_0(config, one_host);
  if (!listen.ok()) return listen.status();
  ServerOptions options;
  options.listen = with_port(listen.value(), 0);
  options.softswitch.by_invitation = true;
  auto started = SwitchServer::start(options);
  if (!started.ok()) return started.status();
  *server = std::move(started.value());
  const std::string address = to_string((*server)->local());
  return place(address, address + " (embedded in rank 0 of " + group + ")");
}

std::string advice_on_slots(const wire::Open& asked, const wire::OpenReply& granted, size_t queue_bytes) {
  const size_t wanted = ServerOptions().receive_buffer_bytes;
  const size_t enough = std::max<size_t>(kPresetSlots / 2, size_t{asked.shards} * LaneSlots::kLeastSlotsForBulk);
  if (queue_bytes >= wanted || granted.payload > kMostPayloadForStreams || granted.slots >= enough) return "";
  return "its switch, in rank 0, grants only " + std::to_string(granted.slots) +
         " slots, because the kernel lets its socket queue no more than " + std::to_string(queue_bytes / 1024) +
         " KiB, which makes large tensors slow, and small ones wait for them: raise the limit on that host (sysctl "
         "net.core.rmem_max=" +
         std::to_string(wanted) + "), or give the process CAP_NET_ADMIN";
}

}  // namespace switchml
