#include "shares.h"

#include <deque>
#include <vector>

#include "way.h"

namespace switchml::scale {

namespace {

enum Leg : uint32_t { kResult, kContribution };  // Values of Packet::hops.

struct Host {
  uint32_t to = 1;                      // The next contribution: distance to its host.
  uint32_t number = 0;                  // The next contribution: packet of that host's share.
  std::deque<uint32_t> complete;        // Complete packets of its own share, to be sent to all in turn.
  uint32_t result_to = 1;               // The next result: distance to its host.
  std::vector<uint32_t> contributions;  // Packet of its share -> contributions so far.
};

class Shares final : public Way {
 public:
  Shares(const WayOptions& options, uint32_t hosts) : Way(options, hosts), hosts_(hosts) {
    for (Job& job : jobs()) {
      const uint32_t n = job.members.count();
      expect(&job, job.segments.all_packets() * 2 * (n - 1));
      for (uint32_t m = 0; m < n; ++m) hosts_[job.members.host(m)].contributions.resize(job.segments.packets(m));
    }
  }

 private:
  bool next(int host, Packet* packet) override {
    const auto number = static_cast<uint32_t>(host);
    return next_result(number, packet) || next_contribution(number, packet);
  }
  void arrived(const Packet& packet, Instant now) override {
    Job& job = job_of(packet.to);
    Host& host = hosts_[packet.to];
    if (packet.hops == kContribution && ++host.contributions[packet.number] == job.members.count() - 1)
      host.complete.push_back(packet.number);
    note_arrival(&job, now);
  }
  bool next_result(uint32_t number, Packet* packet) {
    Host& host = hosts_[number];
    if (host.complete.empty()) return false;
    const Job& job = job_of(number);
    const uint32_t share = job.members.member(number), p = host.complete.front();
    const uint32_t to = job.members.host(share + host.result_to);
    *packet = {number, to, job.segments.packet_bytes(share, p), share, p, kResult};
    if (++host.result_to < job.members.count()) return true;
    host.result_to = 1;
    host.complete.pop_front();
    return true;
  }
  bool next_contribution(uint32_t number, Packet* packet) {
    Host& host = hosts_[number];
    const Job& job = job_of(number);
    if (host.to >= job.members.count()) return false;
    const uint32_t to = job.members.host(job.members.member(number) + host.to);
    const uint32_t share = job.members.member(to), p = host.number;
    *packet = {number, to, job.segments.packet_bytes(share, p), share, p, kContribution};
    if (++host.number < job.segments.packets(share)) return true;
    host.number = 0;
    ++host.to;
    return true;
  }

  std::vector<Host> hosts_;
};

}  // namespace

Outcome run_shares(const WayOptions& options, Fabric* fabric, EventQueue* events) {
  return Shares(options, static_cast<uint32_t>(fabric->hosts())).run(fabric, events, options.window_bytes);
}

}  // namespace switchml::scale
