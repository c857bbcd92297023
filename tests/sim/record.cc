#include "record.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "nodes.h"
#include "random.h"
#include "wire/packet.h"

namespace switchml::sim {

std::string name_of(int node) {
  if (is_switch(node)) return "switch" + std::to_string(node);
  if (!is_worker(node)) return "stranger";
  return "job" + std::to_string(tenant_of(node)) + ".rank" + std::to_string(worker_of(node)) + "/" +
         std::to_string(shard_of(node));
}

namespace {

std::string data_text(const uint8_t* head, size_t size) {
  const wire::Header h = wire::read_header(head);
  char text[200];
  std::snprintf(text, sizeof text, "%s job=%u epoch=%08x worker=%u slot=%u seq=%u op=%u%s witness=%08x words=%zu",
                h.kind == 1 ? "contribution" : "result", h.job, h.epoch, h.worker, h.slot, h.seq,
                h.flags & wire::kOperationMask, (h.flags & wire::kFlagRepeat) != 0 ? " repeat" : "", h.witness,
                (size - wire::kHeaderBytes) / 4);
  return text;
}

std::string exact_text(const uint8_t* head, size_t size) {
  const wire::ExactHeader h = wire::read_exact_header(head);
  char text[200];
  std::snprintf(text, sizeof text,
                "exact %s job=%u epoch=%08x worker=%u slot=%u seq=%u type=%u op=%u divisor=%u%s%s call=%08x "
                "checksum=%08x bytes=%zu",
                h.kind == 5 ? "contribution" : "result", h.job, h.epoch, h.worker, h.slot, h.seq, h.type, h.operation,
                h.divisor, (h.flags & wire::kFlagRepeat) != 0 ? " repeat" : "",
                (h.flags & wire::kFlagDisagree) != 0 ? " disagree" : "", h.call, h.checksum,
                size - wire::kExactHeaderBytes);
  return text;
}

std::string frame_text(const uint8_t* head, size_t size) {
  const int kind = size == 0 ? 0 : wire::kind_of(head);
  if ((kind == 1 || kind == 2) && size >= wire::kHeaderBytes) return data_text(head, size);
  if ((kind == 5 || kind == 6) && size >= wire::kExactHeaderBytes) return exact_text(head, size);
  if ((kind == 3 || kind == 4) && size >= wire::kControlBytes) {
    const wire::Control c = wire::read_control(head);
    return std::string(kind == 3 ? "request" : "reply") + " type=" + std::to_string(c.type) +
           " status=" + std::to_string(c.status) + " id=" + std::to_string(c.request_id);
  }
  return std::to_string(size) + " bytes";
}

}  // namespace

const char* to_string(Fault fault) {
  static const char* const texts[] = {
#define SWITCHML_SIM_TEXT(id, text) text,
      SWITCHML_SIM_FAULTS(SWITCHML_SIM_TEXT)
#undef SWITCHML_SIM_TEXT
  };
  return texts[static_cast<size_t>(fault)];
}

const char* to_string(Rule rule) {
  static const char* const texts[] = {"slot", "stream", "result",  "witness", "error",
                                      "hang", "twice",  "endless", "memory",  "seal"};
  return texts[static_cast<unsigned>(rule)];
}

Record::Event& Record::next() {
  Event& event = ring_[events_++ % kKept];
  event.at = now_;
  event.what = nullptr;
  return event;
}

void Record::frame(const char* what, int from, int to, const uint8_t* data, size_t size) {
  Event& event = next();
  event.what = what;
  event.from = from;
  event.to = to;
  event.size = size;
  std::memset(event.head, 0, sizeof event.head);
  if (size > 0) std::memcpy(event.head, data, std::min(size, sizeof event.head));
  const auto where = static_cast<uint64_t>(from) << 40 | static_cast<uint64_t>(to) << 20 | size;
  hash_ = hash_bytes(event.head, sizeof event.head,
                     mix(hash_ ^ where) + static_cast<uint64_t>(now_.time_since_epoch().count()));
  hash_ ^= static_cast<uint64_t>(what[0]);
  if (print_) std::puts(describe(event).c_str());
}

void Record::note(const std::string& text) {
  Event& event = next();
  event.text = text;
  hash_ = hash_bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size(), mix(hash_));
  if (print_) std::puts(describe(event).c_str());
}

void Record::broken(Rule rule, const std::string& text) {
  note("BROKEN (" + std::string(to_string(rule)) + "): " + text);
  seen_ |= bit(rule);
  if (first_ == Rule::count) {
    first_ = rule;
    violation_ = text;
  }
  if ((tolerated_ & bit(rule)) == 0) stopped_ = true;
}

std::string Record::describe(const Event& event) {
  char at[32];
  std::snprintf(at, sizeof at, "%12.6f ms ", static_cast<double>(event.at.time_since_epoch().count()) * 1e-6);
  if (event.what == nullptr) return at + event.text;
  return at + std::string(event.what) + " " + name_of(event.from) + " -> " + name_of(event.to) + ": " +
         frame_text(event.head, event.size);
}

std::vector<std::string> Record::last_events() const {
  std::vector<std::string> out;
  for (uint64_t i = events_ > kKept ? events_ - kKept : 0; i < events_; ++i) out.push_back(describe(ring_[i % kKept]));
  return out;
}

}  // namespace switchml::sim
