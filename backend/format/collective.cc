#include "format/collective.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/fnv.h"

namespace switchml {

Operands* Collective::operands() {
  if (auto* reduce = std::get_if<Reduce>(&kind)) return reduce;
  return std::get_if<ReduceScatter>(&kind);
}

Gather* Collective::gather() {
  if (auto* exchange = std::get_if<Exchange>(&kind)) return exchange;
  return std::get_if<Gather>(&kind);
}

Movement Collective::movement() const {
  if (operands() != nullptr) return Movement::kNone;
  if (gather() != nullptr) return Movement::kGather;
  return std::holds_alternative<Broadcast>(kind) ? Movement::kBroadcast : Movement::kScatter;
}

int Collective::root() const {
  if (const auto* reduce = std::get_if<Reduce>(&kind)) return reduce->root;
  if (const auto* broadcast = std::get_if<Broadcast>(&kind)) return broadcast->root;
  if (const auto* scatter = std::get_if<Scatter>(&kind)) return scatter->root;
  return -1;
}

const void* Collective::input() const {
  if (const Operands* reduced = operands()) return reduced->input;
  if (const Gather* gathered = gather()) return gathered->input;
  const auto* broadcast = std::get_if<Broadcast>(&kind);
  return broadcast != nullptr ? broadcast->input : nullptr;
}

OutputRange Collective::output() const {
  if (const Operands* reduced = operands()) return reduced->output;
  if (gather() != nullptr) return {};
  const auto* broadcast = std::get_if<Broadcast>(&kind);
  void* output = broadcast != nullptr ? broadcast->output : std::get<Scatter>(kind).output;
  return {output, 0, output != nullptr ? count : 0};
}

void Collective::report_gathered(size_t worker, size_t begin, size_t end) const {
  const Gather& all = *gather();
  if (all.written.empty() || all.written[worker] == nullptr) return;
  tell(all.written[worker], all.receive_ranges[worker], begin, end);
}

void Collective::tell(ResultWatermark* written, const OutputRange& wanted, size_t begin, size_t end) {
  begin = std::max(begin, wanted.begin);
  end = std::min(end, wanted.end);
  if (begin < end) written->written(begin - wanted.begin, end - wanted.begin);
}

std::string describe(const Collective& collective) {
  if (collective.op == ReduceOp::kBarrier) return collective.title.text();
  if (collective.movement() != Movement::kNone) {
    const size_t bytes = collective.total_count > 0 ? collective.total_count : collective.count;
    return collective.title.text() + ("(" + std::to_string(bytes)) + " bytes)";
  }
  return std::string(collective.title.text()) + "(" + to_string(collective.op) + ", " + to_string(collective.type) +
         ", " + std::to_string(std::max(collective.count, collective.total_count)) + " elements)";
}

uint64_t agreement_hash(const Collective& collective) {  // [WIT-12]
  const Operands* reduced = collective.operands();
  uint64_t hash = fnv1a(&collective.tag, sizeof collective.tag, collective.title.hash());
  const uint32_t numbers[] = {reduced != nullptr ? reduced->divisor : 1, static_cast<uint32_t>(collective.movement()),
                              static_cast<uint32_t>(collective.root())};
  return fnv1a(numbers, sizeof numbers, hash);
}

Status complete_alone(const Collective& collective) {
  SWITCHML_ASSERT(collective.is_ready(collective.count) && collective.op != ReduceOp::kSumToFloat32);
  const auto* scatter = std::get_if<Scatter>(&collective.kind);
  const void* input = scatter != nullptr ? scatter->inputs.front() : collective.input();
  const size_t size = element_bytes(collective.type);
  const auto copy_to = [&](const OutputRange& range) {
    const void* from = static_cast<const uint8_t*>(input) + range.begin * size;
    if (range.end > range.begin && from != range.data) std::memmove(range.data, from, (range.end - range.begin) * size);
  };
  if (const auto* exchange = std::get_if<Exchange>(&collective.kind)) {
    const Result<ExchangePlan> plan = exchange->on_sizes_known(exchange->sizes);
    if (!plan.ok()) return plan.status();
    for (const OutputRange& range : plan.value().receive_ranges) copy_to(range);
  } else if (const Gather* gather = collective.gather()) {
    for (const OutputRange& range : gather->receive_ranges) copy_to(range);
  } else {
    copy_to(collective.output());
  }
  collective.report_written(0, collective.count);
  return {};
}

}  // namespace switchml
