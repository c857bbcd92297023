// Sums of few elements in one round trip: what is sent before the exponents are known, and what becomes of it
// (engine/speculation.h). Speculated chunks follow their call chunk in the call lane, so the data lane carries what it
// would without them, but for the sums that were read already; both lanes keep an order that is the same on all ranks,
// whatever has come back when. Which collectives are speculated on depends on earlier results alone
// (engine/exponent_history.h), and whether a speculation fits on the call chunk's result alone.
#include <algorithm>

#include "base/assert.h"
#include "base/fnv.h"
#include "engine/shard.h"

namespace switchml {

// What makes collectives comparable.
uint64_t Shard::kind_of(const Job& job) {
  const Collective& collective = job.collective();
  uint64_t hash = fnv1a(&collective.op, sizeof collective.op, job.agreed);
  hash = fnv1a(&collective.type, sizeof collective.type, hash);
  return fnv1a(&collective.count, sizeof collective.count, hash);
}

// A collective enters the stream; `group` is its first, null where it has no exponents.
void Shard::look_back(Job& job, GroupBuffer* group) {
  if (job.speculation.chunks() == 0) {
    history_.open(kind_of(job), 0, 0);
    return;
  }
  const uint64_t number = groups_of(job).taken() - 1;
  const auto prediction = history_.open(kind_of(job), number, job.plan.blocks_of_group(0));
  group->place = history_.last();
  group->remembered = true;
  if (prediction.exponents == nullptr) return;
  job.speculation.predict(prediction.exponents, group);
  group->predicted = true;
  group->speculated = job.speculates = prediction.trusted;
}

// The next speculated chunk. All are sent, whatever has come back meanwhile: other ranks may not have seen it.
void Shard::open_speculated(Job& job, Time now) {
  const ElementRange range = job.speculation.chunk(job.next_speculated);
  GroupBuffer* group = groups_of(job).find(job.serial, job.next_call);
  SWITCHML_ASSERT(group != nullptr);
  if (job.next_speculated == 0) counters_.groups_speculated.add(1);
  counters_.chunks_speculated.add(1);
  InFlight& flight = open_slot(lanes_[0], job, Stage::kSpeculated, job.next_call, range);
  if (++job.next_speculated == job.speculation.chunks()) {
    job.speculates = false;
    ++job.next_call;
  }
  const size_t words = job.speculation.encode(range, *group, words_of(flight));
  seal(flight, words, job.speculation.windows_hash(*group), now);
  finish_if_over(job, group);
}

// The exponents are known. What fits needs no data chunks; the others go the usual way from here, and what was held or
// is still to come of them is of no use.
void Shard::settle(Job& job, GroupBuffer* group) {
  if (!group->remembered) return;
  const size_t outside = group->predicted ? job.speculation.blocks_outside(*group) : 0;
  const bool served = outside == 0 && !group->has_specials;
  history_.close(group->place, group->exponents.data(), served);
  if (!group->speculated) return;
  group->fits = served;
  if (served) {
    ++job.next_group;
    for (const int index : group->held) {
      const InFlight& flight = in_flight_[static_cast<size_t>(index)];
      read_speculated(job, group, flight.range, words_of(flight));
    }
  } else {
    counters_.groups_mispredicted.add(1);
    counters_.blocks_mispredicted.add(outside);
  }
  group->held.clear();
}

// Results come in any order. Until the call chunk's has come, a speculated one is held in the frame of its slot. The
// slot's next use cannot take the frame before: it is a whole turn of the lane later, so behind the next use of the
// call chunk's slot, which is still open.
void Shard::take_speculated(Job& job, GroupBuffer* group, const InFlight& flight, const uint8_t* words) {
  if (!group->ready) {
    std::copy_n(words, flight.words * kWordBytes, words_of(flight));
    group->held.push_back(flight.index);
  } else if (group->fits) {
    read_speculated(job, group, flight.range, words);
  }
}

// A group that goes the usual way can be summed before the last of its speculated chunks has found a free slot. That
// one still needs the windows.
void Shard::finish_if_over(const Job& job, GroupBuffer* group) {
  if (!job.speculates && group->chunks_done == job.plan.chunks_of_group(group->group)) groups_of(job).finish(group);
}

void Shard::read_speculated(Job& job, GroupBuffer* group, ElementRange range, const uint8_t* words) {
  job.speculation.decode(words, range, *group);
  counters_.elements_summed_by_switch.add(range.count);
  if (++group->speculated_done == job.speculation.chunks()) groups_of(job).finish(group);
}

}  // namespace switchml
