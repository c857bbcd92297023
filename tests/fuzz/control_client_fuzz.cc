// What a worker makes of datagrams that come instead of, or before, the reply to its request.
#include <cstring>
#include <vector>

#include "base/limits.h"
#include "check.h"
#include "client/control_client.h"
#include "script.h"

namespace switchml {
namespace {

using fuzz::check;

// Every request finds all frames of the input waiting. Request ids cannot be guessed: with bit 0 of a step's `what` its
// frame gets the right one.
class Replies : public Transport, public QueuePairs {
 public:
  Replies(const uint8_t* at, const uint8_t* end, bool has_card) : has_card_(has_card) {
    fuzz::Step step;
    while (fuzz::next_step(&at, end, &step)) steps_.push_back(step);
  }

  const char* name() const override { return "replies"; }
  TransportLimits limits() const override { return {}; }
  Endpoint local() const override { return {}; }
  size_t path_frame_bytes(const Endpoint&) const override { return 1472; }
  uint8_t* allocate(size_t) override { return nullptr; }
  size_t send(const TxFrame* frames, size_t count) override {
    check(count == 1 && frames[0].size <= wire::kMaxControlBytes, "a request is one small frame");
    wire::ControlPacket packet;
    check(wire::parse_control(frames[0].data, frames[0].size, wire::Kind::kRequest, &packet) == wire::ParseError::kNone,
          "a request is well-formed");
    answers_.clear();
    for (fuzz::Step& step : steps_) {
      if ((step.what & 1) != 0 && step.frame.size() >= wire::kControlBytes) {
        std::memcpy(step.frame.data() + 4, frames[0].data + 4, 4);
      }
      answers_.push_back(step.is_bare() ? step.frame : fuzz::sealed(step.frame));
    }
    next_ = 0;
    return 1;
  }
  size_t receive(RxFrame* frames, size_t count) override {
    size_t taken = 0;
    for (; taken < count && next_ < answers_.size(); ++taken, ++next_) {
      frames[taken].data = answers_[next_].data();
      frames[taken].size = static_cast<uint32_t>(answers_[next_].size());
    }
    return taken;
  }
  void release() override {}
  QueuePairs* queue_pairs() override { return has_card_ ? this : nullptr; }
  Result<wire::Introduction> queue_pair_for(const Endpoint&) override { return wire::Introduction(); }
  Status connect(const Endpoint&, const wire::Introduction&) override { return {}; }
  bool is_connected(const Endpoint&) const override { return true; }
  void disconnect(const Endpoint&) override {}
  void wait(Duration) override {}
  void wake() override {}
  std::string take_error() override { return ""; }

 private:
  const bool has_card_;
  std::vector<fuzz::Step> steps_;
  std::vector<std::vector<uint8_t>> answers_;  // to the last request
  size_t next_ = 0;
};

}  // namespace
}  // namespace switchml

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace switchml;
  // Its length chooses, so that inputs from before there were cards mean the same.
  const bool has_card = size % 2 != 0;
  Replies replies(bytes, bytes + size, has_card);
  Endpoint place;
  if (has_card) place.carrier = Carrier::kRdma;
  ControlClient client(replies, place, "10.0.0.1:48879");
  const Time now{};  // long past: no request waits for more than what is there
  const auto opened = client.open(wire::Open{}, now);
  const auto check_error = [](const Status& status) {
    fuzz::check(status.message().find("10.0.0.1:48879") != std::string::npos, "errors name the switch");
  };
  if (!opened.ok()) check_error(opened.status());
  wire::Membership member;
  if (opened.ok()) member = {opened->job, opened->epoch, opened->session_key, 0};
  const auto joined = client.join(member, 0, now);
  if (!joined.ok()) check_error(joined.status());
  const Status closed = client.close(member, now);
  if (!closed.ok()) check_error(closed);
  return 0;
}
