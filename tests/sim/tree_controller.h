// The least that can control a tree of switches: grants by the rules that ship (SessionTable), installs sessions on all
// switches, answers what workers ask through them. It is never lost itself and commands take no time.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "softswitch/session_table.h"
#include "switch_node.h"
#include "wire/control.h"

namespace switchml::sim {

/// Which switch each worker of a job is attached to. Switch 0 is the root, the others are its leaves.
using Attachment = std::vector<int>;

class TreeController {
 public:
  TreeController(std::vector<SwitchNode*> switches, const softswitch::SessionLimits& limits, Record* record);
  ~TreeController();

  void attach(int tenant, const Attachment& attachment) { attachments_[tenant] = attachment; }
  void sweep();
  /// A switch has come back and knows nothing.
  void restarted(int at);
  void check_empty();

 private:
  struct Tap final : softswitch::ControlTap {
    TreeController* controller = nullptr;
    int at = 0;
    void request(const uint8_t* frame, size_t size, const Endpoint& from) override {
      controller->request(at, frame, size, node_at(from));
    }
  };
  struct Session {
    uint32_t epoch = 0;
    int tenant = 0;
  };
  void request(int at, const uint8_t* frame, size_t size, int from);
  wire::ReplyStatus answer(int at, const wire::ControlPacket& packet, int from, uint8_t* body);
  wire::ReplyStatus open(const wire::Open& asked, int from, uint8_t* body);
  wire::ReplyStatus join(int at, const wire::Join& asked, int from, uint8_t* body);
  wire::ReplyStatus close(const wire::Close& asked);
  wire::ReplyStatus probe(const wire::Probe& asked, int from, uint8_t* body);
  bool install(const wire::OpenReply& granted, int shards, int tenant);
  void end(uint8_t job);

  std::vector<SwitchNode*> switches_;
  std::vector<Tap> taps_;
  softswitch::SessionTable table_;
  Record* record_;
  std::map<int, Attachment> attachments_;  // Key: tenant.
  std::map<uint8_t, Session> sessions_;    // Key: job.
};

}  // namespace switchml::sim
