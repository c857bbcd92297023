#include "session/links.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "client/udp_reach.h"
#include "path/path_report.h"
#include "transport/tcp_reach.h"
#include "transport/udp_path.h"
#include "wire/layout.h"

namespace switchml {

namespace {

constexpr Duration kTcpRetryPause = milliseconds(500);

// Switches may start after their ranks.
Status await_tcp(Opening& opening, const Links& links) {
  const Time end = opening.time.stage_end(0.5);
  std::string why = why_no_tcp(links.endpoints(), end);
  while (!why.empty() && monotonic_now() + kTcpRetryPause < end) {
    std::this_thread::sleep_for(kTcpRetryPause);
    if (Status status = opening.exchange.ended(); !status.ok()) return status;
    why = why_no_tcp(links.endpoints(), end);
  }
  if (why.empty()) return {};
  return {Code::kUnavailable,
          "rank " + std::to_string(opening.group.rank) + " cannot connect to switch " + why +
              (is_embedded(links.switches.front().name) ? ": does TCP pass between the hosts? "
                                                        : ": is switchml-switchd running there, and does TCP pass? ") +
              "SWITCHML_TRANSPORT=auto or udp need no TCP"};
}

// Losses are injected where they are asked for.
bool is_by_tcp_alone(Opening& opening, const Links& links, size_t number) {
  if (!may_take_tcp(opening.config) || !opening.config.faults.empty()) return false;
  return takes_tcp_alone(links.link(number, 0), links.switches[number], opening.time.stage_end(0.4),
                         [&] { return opening.exchange.ended(); });
}

Blob report_of_packets(Opening& opening, const Links& links, const std::string& why_no_memory) {
  size_t least = SIZE_MAX;
  bool leaves_host = false;
  std::string tcp_alone;
  for (size_t i = 0; i < links.switches.size(); ++i) {
    const Endpoint& at = links.switches[i].endpoint;
    least = std::min(least, links.transports[0]->path_frame_bytes(at));
    if (udp_path(at).on_host) continue;
    leaves_host = true;
    if (tcp_alone.empty() && is_by_tcp_alone(opening, links, i)) tcp_alone = links.switches[i].name;
  }
  return path_report(least, leaves_host, why_no_memory, tcp_alone);
}

Carrier first_carrier(const Config& config) {
  if (config.transport == "tcp") return Carrier::kTcp;
  if (config.transport != "rdma") return Carrier::kPackets;
  return config.controller.empty() ? Carrier::kRdma : Carrier::kPlaces;
}

Result<Blob> look_at_paths(Opening& opening, const std::string& why_no_memory, Links* links) {
  const Carrier over = first_carrier(opening.config);
  if (over == Carrier::kTcp) {
    if (Status status = await_tcp(opening, *links); !status.ok()) return status;
  }
  if (Status status = links->connect(opening.config, opening.group.rank, over); !status.ok()) return status;
  if (may_lose_frames(over)) return report_of_packets(opening, *links, why_no_memory);
  // There is nothing to find out about the payloads of connections.
  return path_report(kMaxPayloadBytes + wire::kExactHeaderBytes, false, why_no_memory);
}

}  // namespace

std::vector<Endpoint> Links::endpoints() const {
  std::vector<Endpoint> all;
  for (const SwitchAddress& at : switches) all.push_back(at.endpoint);
  return all;
}

std::string Links::names() const {
  return is_alone() ? "switch " + switches.front().name : std::to_string(switches.size()) + " aggregators";
}

Status Links::connect(const Config& config, int rank, Carrier over) {
  for (SwitchAddress& at : switches) at.endpoint = with_carrier(at.endpoint, over);
  auto connected = connect_shards(config, rank, endpoints(), switches.front().seal);
  if (!connected.ok()) return connected.status();
  transports = std::move(connected.value());
  return {};
}

Result<Links> find_paths(Opening& opening, const Place& place) {
  Links links;
  links.switches = place.switches;
  const Status said = opening.say("path", look_at_paths(opening, place.host_memory->why_none(), &links));
  return said.ok() ? Result<Links>(std::move(links)) : said;
}

}  // namespace switchml
