// benchmarks/scale: links take the time that they should, and events come in order.
#include "fabric.h"

#include <gtest/gtest.h>

#include <set>

namespace switchml::scale {
namespace {

TEST(EventQueue, GivesEventsInOrderOfTimeAndThenOfPushing) {
  EventQueue events;
  uint64_t state = 1;
  for (uint32_t i = 0; i < 5000; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    Event event;
    event.at = static_cast<Instant>((state >> 33) % 200) * 100 * kMicrosecond;  // near, far, and many at one time
    event.number = i;
    events.push(event);
  }
  Instant last = 0;
  uint32_t number = 0;
  int count = 0;
  for (; !events.empty(); ++count) {
    const Event event = events.pop();
    ASSERT_GE(event.at, last);
    if (event.at == last && count > 0) {
      ASSERT_GT(event.number, number);
    }
    last = event.at;
    number = event.number;
    if (count % 7 == 0 && count < 4000) {  // one that comes meanwhile, in the bucket that is open
      Event later = event;
      later.number = 100000 + static_cast<uint32_t>(count);
      events.push(later);
    }
  }
  EXPECT_GT(count, 5000);
}

FabricOptions three_levels() {
  FabricOptions options;
  options.racks = 6;
  options.hosts_per_rack = 8;
  options.racks_per_pod = 2;
  return options;
}

TEST(Fabric, AFrameTakesItsTimeAndThatOfThoseBeforeIt) {
  Fabric fabric(three_levels());
  const Instant whole = (8000 + static_cast<Instant>(kWireOverhead)) * 80;
  EXPECT_EQ(fabric.send(fabric.host_up(3), 8000, 0), whole + fabric.hop());
  EXPECT_EQ(fabric.send(fabric.host_up(3), 8000, 0), 2 * whole + fabric.hop());
  EXPECT_EQ(fabric.send(fabric.rack_up(1, 0), 8000, 0), whole / 4 + fabric.hop());
}

TEST(Fabric, AQueueThatIsFullDrops) {
  FabricOptions options = three_levels();
  options.queue_kib = 8;
  Fabric fabric(options);
  int taken = 0;
  while (fabric.send(fabric.host_down(0), 4096 - kWireOverhead, 0) != kNoInstant) ++taken;
  EXPECT_EQ(taken, 3);  // two that wait, and the one that is being sent
  EXPECT_EQ(fabric.dropped(), 1U);
}

TEST(Fabric, PathsEndAtTheOtherHostAndNoTwoLinksAreOne) {
  const Fabric fabric(three_levels());
  std::set<uint32_t> links;
  for (int rack = 0; rack < fabric.racks(); ++rack) {
    for (int plane = 0; plane < fabric.planes(); ++plane) {
      EXPECT_TRUE(links.insert(fabric.rack_up(rack, plane)).second);
      EXPECT_TRUE(links.insert(fabric.rack_down(rack, plane)).second);
      const int pod = fabric.pod_switch(fabric.pod_of(rack), plane);
      EXPECT_EQ(fabric.between(rack, pod), fabric.rack_up(rack, plane));
      EXPECT_EQ(fabric.between(pod, rack), fabric.rack_down(rack, plane));
      for (int core = 0; core < fabric.cores(); ++core) {
        EXPECT_EQ(fabric.between(pod, fabric.core_switch(plane, core)),
                  fabric.pod_up(fabric.pod_of(rack), plane, core));
        EXPECT_EQ(fabric.between(fabric.core_switch(plane, core), pod),
                  fabric.pod_down(fabric.pod_of(rack), plane, core));
      }
    }
  }
  EXPECT_EQ(fabric.path(0, 1, 0).count, 2U);
  EXPECT_EQ(fabric.path(0, 8, 0).count, 4U);
  const Path far = fabric.path(0, 47, 5);
  EXPECT_EQ(far.count, 6U);
  EXPECT_EQ(far.links[0], fabric.host_up(0));
  EXPECT_EQ(far.links[5], fabric.host_down(47));
}

}  // namespace
}  // namespace switchml::scale
