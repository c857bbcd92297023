// Packets of exact sessions, as workers make them and take them.
#pragma once

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "fixture.h"
#include "wire/checksum.h"

namespace switchml::softswitch {

struct ExactPart {
  uint8_t worker = 0;
  uint16_t slot = 0;
  uint32_t seq = 1;
  std::vector<uint8_t> elements;
  ElementType type = ElementType::kFloat32;
  ReduceOp operation = ReduceOp::kSum;
  uint8_t divisor = 1;
  uint32_t call = 0xca11;
  uint8_t flags = 0;
  std::optional<wire::Target> target = std::nullopt;
};

template <typename T>
std::vector<uint8_t> bytes_of(const std::vector<T>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

inline ExactPart floats(int worker, const std::vector<float>& values, uint32_t seq = 1, uint16_t slot = 0) {
  ExactPart part;
  part.worker = static_cast<uint8_t>(worker);
  part.elements = bytes_of(values);
  part.seq = seq;
  part.slot = slot;
  return part;
}

inline std::vector<uint8_t> exact_frame(const ExactPart& part, uint8_t job, uint32_t epoch, wire::ChecksumRule rule) {
  wire::ExactHeader h;
  h.version = wire::kVersion;
  h.kind = static_cast<uint8_t>(wire::Kind::kExactContribution);
  h.flags = static_cast<uint8_t>(part.flags | (part.target ? wire::kFlagTarget : 0));
  h.job = job;
  h.worker = part.worker;
  h.epoch = epoch;
  h.slot = part.slot;
  h.type = static_cast<uint8_t>(part.type);
  h.operation = static_cast<uint8_t>(part.operation);
  h.divisor = part.divisor;
  h.seq = part.seq;
  h.call = part.call;
  std::vector<uint8_t> frame(wire::kExactHeaderBytes + (part.target ? wire::kTargetBytes : 0));
  if (part.target) wire::write_target(*part.target, frame.data() + wire::kExactHeaderBytes);
  frame.insert(frame.end(), part.elements.begin(), part.elements.end());
  wire::seal_exact(h, rule, frame.data(), frame.size() - wire::kExactHeaderBytes);
  return frame;
}

struct ExactResult {
  wire::ExactHeader header;
  std::vector<uint8_t> elements;

  template <typename T>
  std::vector<T> as() const {
    std::vector<T> values(elements.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), elements.data(), values.size() * sizeof(T));
    return values;
  }
  bool disagree() const { return (header.flags & wire::kFlagDisagree) != 0; }
};

/// A whole one: its checksum has to hold.
inline ExactResult exact_result_of(const std::vector<uint8_t>& frame, wire::ChecksumRule rule) {
  wire::ExactPacket packet;
  EXPECT_EQ(wire::parse_exact(frame.data(), frame.size(), wire::Kind::kExactResult, &packet), wire::ParseError::kNone);
  EXPECT_TRUE(wire::exact_intact(frame.data(), frame.size(), rule));
  EXPECT_EQ(packet.header.worker, kAllWorkers);
  return {packet.header, {packet.elements, packet.elements + packet.bytes}};
}

inline wire::Open ask_exact(wire::Open open, uint8_t flags = 0) {
  open.flags = static_cast<uint8_t>(wire::kOpenExact | flags);
  return open;
}

/// An exact session with all its workers joined.
struct ExactJob {
  ExactJob(Bench& on, int workers, int slots = 8, size_t payload = 1024, int shards = 1, uint64_t client_key = 1)
      : ExactJob(on, ask_exact(ask_for(workers, shards, slots, payload, client_key))) {}
  ExactJob(Bench& on, const wire::Open& asked) : job(on, asked) { EXPECT_NE(job.granted.flags & wire::kOpenExact, 0); }
  wire::ChecksumRule rule() const { return {job.granted.session_key, job.at(0).carrier != Carrier::kRdma}; }
  std::vector<uint8_t> frame(const ExactPart& part) const {
    return exact_frame(part, job.granted.job, job.granted.epoch, rule());
  }
  std::vector<Sent> put(const ExactPart& part, int shard = 0) {
    return job.bench.put(frame(part), job.at(part.worker, shard));
  }
  std::vector<Sent> put(const std::vector<uint8_t>& bytes, int worker) { return job.bench.put(bytes, job.at(worker)); }
  ExactResult result(const std::vector<Sent>& sent) const {
    EXPECT_EQ(sent.size(), 1U);
    return sent.size() == 1 ? exact_result_of(sent[0].frame, rule()) : ExactResult{};
  }
  /// Puts all of them; what came of the last one.
  ExactResult reduce(const std::vector<ExactPart>& parts) {
    std::vector<Sent> sent;
    for (const ExactPart& part : parts) {
      EXPECT_TRUE(sent.empty()) << "an answer before all have contributed";
      sent = put(part);
    }
    return result(sent);
  }

  Job job;
};

}  // namespace switchml::softswitch
