// The controller's rules for requests that come in band: any bytes, at any switch of a tree, from any place, while
// sessions are opened, lost and expire. Its switches are those of the unit tests; their expectations hold here too.
#include "../unit/controller/fixture.h"
#include "check.h"
#include "script.h"

namespace switchml::controller {
namespace {

using fuzz::check;

// Bits of Step::what; the rest of the byte chooses the switch.
constexpr uint8_t kMember = 1;  // the frame gets job, epoch and key of the last session
constexpr uint8_t kOpen = 2;    // first a session is opened
constexpr uint8_t kSweep = 4;   // leases are looked at first
constexpr uint8_t kDeath = 8;   // the switch dies first, or comes back

class Lab {
 public:
  void step(fuzz::Step step) {
    const int at = (step.what >> 4) % 3;
    rack_.now += milliseconds(500) * step.time;
    if (step.what & kOpen) open(step);
    if (step.what & kSweep) rack_.sweep();
    if (step.what & kDeath) die_or_return(at);
    if (step.what & kMember) fuzz::become_member(granted_, cookie_, &step.frame);
    if (!step.is_bare()) step.frame = fuzz::sealed(step.frame);
    for (PaperSwitch& each : rack_.switches) each.sent.clear();
    Effects effects;
    rack_.core.packet_in(at, step.frame.data(), step.frame.size(), place(step.from), rack_.now, &effects);
    rack_.run(effects);
    size_t answers = 0;
    for (const PaperSwitch& each : rack_.switches) {
      answers += each.sent.size();
      for (const PacketOut& answer : each.sent) look(answer.payload, step.frame.size());
    }
    check(answers <= 1, "a request has one answer at most");
    check(rack_.core.sessions(rack_.now).size() <= kMaxJobs, "sessions are bounded");
  }

 private:
  void look(const std::vector<uint8_t>& answer, size_t asked_bytes) {
    wire::Reply reply;
    if (wire::parse_reply(answer.data(), answer.size(), &reply) != wire::ParseError::kNone) return;
    if (reply.status == wire::ReplyStatus::kProveAddress) cookie_ = reply.join.cookie;
    const bool to_member = reply.type == wire::Request::kProbe && reply.status == wire::ReplyStatus::kOk;
    check(to_member || answer.size() <= asked_bytes, "no answer to a stranger is longer than its question");
  }

  static SwitchPort place(uint8_t from) { return {fuzz_at_[from % 5], "", static_cast<uint32_t>(from % 3)}; }

  void open(const fuzz::Step& step) {
    OpenRequest asked = request({"10.0.1.0", "10.0.1.2", "10.0.1.1"}, step.from);
    asked.shards = 1 + step.from % 3;
    asked.owner = {"owner", 4, 64};
    const OpenAnswer answer = rack_.open(asked);
    if (!answer.refusal) granted_ = answer.granted;
  }

  void die_or_return(int at) {
    PaperSwitch& target = rack_.switches[static_cast<size_t>(at)];
    target.dead = !target.dead;
    if (target.dead) {
      rack_.core.switch_down(at, "it died");
      target.installed.clear();
    } else {
      rack_.up(at, software());
    }
  }

  static const std::vector<Endpoint> fuzz_at_;
  Rack rack_{two_leaves()};
  wire::OpenReply granted_;
  uint64_t cookie_ = 0;  // the last one that a join was told
};

const std::vector<Endpoint> Lab::fuzz_at_ = {at("10.0.1.0:4000"), at("10.0.1.1:4000"), at("10.0.1.2:4000"),
                                             at("10.0.1.3:5000"), at("10.9.9.9:1")};

}  // namespace
}  // namespace switchml::controller

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  testing::GTEST_FLAG(throw_on_failure) = true;  // an expectation of the fixture that fails is a crash
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace switchml;
  controller::Lab lab;
  const uint8_t* at = bytes;
  fuzz::Step step;
  for (int steps = 0; steps < 200 && fuzz::next_step(&at, bytes + size, &step); ++steps) lab.step(step);
  return 0;
}
