#include "controllerd/topology_file.h"

#include <gtest/gtest.h>

#include "socket/address.h"
#include "temporary_file.h"

namespace switchml {
namespace {

const char* const kGood = R"(limits: {lease: 60}
switches:
  - name: spine
    agent: spine.example:50051
    address: 10.0.0.1
    ports: {1: 100G, 2: 100G}
  - name: leaf1
    agent: 10.0.0.2:50051
    address: 10.0.0.2:4000
    parent: spine
    parent_port: 9
    port_at_parent: 1
  - name: leaf2
    agent: 10.0.0.3:50051
    address: 10.0.0.3
    parent: spine
    port_at_parent: 2
workers:
  - name: w0
    addresses: [10.0.1.1, "fe80::1"]
    switch: leaf1
    port: 1
    speed: 100G
  - {name: w1, addresses: [10.0.1.2], switch: leaf2}
)";

std::string with(std::string text, const std::string& old, const std::string& fresh) {
  const size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return at == std::string::npos ? text : text.replace(at, old.size(), fresh);
}

/// "LINE: message"
std::string socket_error(const std::string& text) {
  const TemporaryFile file(text);
  const auto topology = read_topology(file.path());
  EXPECT_FALSE(topology.ok()) << text;
  if (topology.ok()) return "";
  const std::string& message = topology.status().message();
  EXPECT_EQ(message.rfind(file.path() + ":", 0), 0U) << message;
  return message.substr(std::min(message.size(), file.path().size() + 1));
}

TEST(TopologyFile, EverythingIsRead) {
  const TemporaryFile file(kGood);
  const auto read = read_topology(file.path());
  ASSERT_TRUE(read.ok()) << read.status().message();
  const controller::Topology& topology = read.value();
  EXPECT_EQ(topology.lease, seconds(60));
  ASSERT_EQ(topology.switches.size(), 3U);
  EXPECT_EQ(topology.switches[0].agent, "spine.example:50051");
  EXPECT_EQ(to_string(topology.switches[0].address), "10.0.0.1:48879");
  EXPECT_EQ(topology.switches[0].parent, controller::kNone);
  EXPECT_EQ(to_string(topology.switches[1].address), "10.0.0.2:4000");
  EXPECT_EQ(topology.switches[1].parent, 0);
  EXPECT_EQ(topology.switches[1].up.port, 9U);
  EXPECT_EQ(topology.switches[1].up.port_at_parent, 1U);
  EXPECT_EQ(topology.switches[2].up.port, 0U);
  ASSERT_EQ(topology.workers.size(), 2U);
  EXPECT_EQ(topology.workers[0].addresses.size(), 2U);
  EXPECT_EQ(topology.workers[0].attached, 1);
  EXPECT_EQ(topology.workers[0].port, 1U);
  EXPECT_EQ(topology.workers[0].speed, "100G");
  EXPECT_EQ(topology.workers[1].attached, 2);
}

TEST(TopologyFile, UplinksHaveAnMtuAndSwitchesAMac) {
  const TemporaryFile file(with(kGood, "    port_at_parent: 2\n", "    mtu: 9000\n    mac: 02:00:00:00:00:0A\n"));
  const auto read = read_topology(file.path());
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read.value().switches[1].up.mtu, 1500U);
  EXPECT_EQ(read.value().switches[2].up.mtu, 9000U);
  EXPECT_EQ(read.value().switches[1].mac, "");
  EXPECT_EQ(read.value().switches[2].mac, "02:00:00:00:00:0a");
}

TEST(TopologyFile, OneSwitchNeedsNoWorkers) {
  const TemporaryFile file("switches:\n  - {name: s, agent: a:1, address: 10.0.0.1}\n");
  const auto read = read_topology(file.path());
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_TRUE(read.value().workers.empty());
  EXPECT_EQ(read.value().lease, seconds(1800));
}

struct Mistake {
  const char* old;
  const char* fresh;
  const char* message;
};

TEST(TopologyFile, MistakesAreNamedWithTheirLine) {
  const Mistake mistakes[] = {
      {"{lease: 60}", "{lease: 0}", "1: lease (seconds) \"0\": allowed are 1 to 86400"},
      {"{lease: 60}", "{laese: 60}", "1: limits has no key \"laese\"; allowed are lease"},
      {"name: leaf2", "name: leaf1", "13: switch name \"leaf1\" is used twice"},
      {"agent: 10.0.0.3:50051", "agent: 10.0.0.3",
       "14: switch \"leaf2\": agent \"10.0.0.3\": allowed is HOST:PORT, with a port from 1 to 65535 and not the "
       "wildcard address, or unix:PATH"},
      {"agent: 10.0.0.3:50051", "agent: host:99999",
       "14: switch \"leaf2\": agent \"host:99999\": allowed is HOST:PORT, with a port from 1 to 65535 and not the "
       "wildcard address, or unix:PATH"},
      {"    agent: 10.0.0.3:50051\n", "", "13: switch \"leaf2\" needs the key \"agent\""},
      {"agent: 10.0.0.3:50051\n", "agent: 10.0.0.2:50051\n",
       "14: switch \"leaf2\": agent \"10.0.0.2:50051\" is that of switch \"leaf1\" too"},
      {"address: 10.0.0.3\n", "address: somewhere\n",
       "15: switch \"leaf2\": address \"somewhere\" is not a literal IP address; allowed are 10.0.0.1, 10.0.0.1:48879, "
       "fe80::1 and [fe80::1]:48879"},
      {"address: 10.0.0.3\n", "address: 0.0.0.0\n",
       "15: switch \"leaf2\": address \"0.0.0.0\": allowed is a unicast one that workers can send to"},
      {"address: 10.0.0.3\n", "address: 239.1.2.3\n",
       "15: switch \"leaf2\": address \"239.1.2.3\": allowed is a unicast one that workers can send to"},
      {"address: 10.0.0.3\n", "address: 255.255.255.255\n",
       "15: switch \"leaf2\": address \"255.255.255.255\": allowed is a unicast one that workers can send to"},
      {"address: 10.0.0.3\n", "address: ff02::1\n",
       "15: switch \"leaf2\": address \"ff02::1\": allowed is a unicast one that workers can send to"},
      {"address: 10.0.0.3\n", "address: 10.0.0.3\n    mac: 02-00-00-00-00-01\n",
       "16: switch \"leaf2\": mac \"02-00-00-00-00-01\": allowed is the MAC address of one host, as in "
       "02:00:00:00:00:01"},
      {"port_at_parent: 2", "mtu: 575", "17: switch \"leaf2\": mtu (bytes) \"575\": allowed are 576 to 65535"},
      {"port_at_parent: 2", "mtu: 65536", "17: switch \"leaf2\": mtu (bytes) \"65536\": allowed are 576 to 65535"},
      {"address: 10.0.0.1\n", "address: 10.0.0.1\n    mtu: 9000\n",
       "6: switch \"spine\": mtu means nothing without parent"},
      {"address: 10.0.0.3\n", "address: 10.0.0.1\n",
       "15: switch \"leaf2\": address \"10.0.0.1\" is that of switch \"spine\" too"},
      {"parent: spine\n    port_at", "parent: spin\n    port_at",
       "16: switch \"leaf2\": parent \"spin\" is no switch of this file; allowed are spine, leaf1, leaf2"},
      {"address: 10.0.0.1\n", "address: 10.0.0.1\n    parent: leaf2\n",
       "6: parents form a cycle: spine -> leaf2 -> spine"},
      {"parent: spine\n    port_at", "parent: leaf2\n    port_at", "16: parents form a cycle: leaf2 -> leaf2"},
      {"    parent: spine\n    port_at", "    port_at",
       "16: switch \"leaf2\": port_at_parent means nothing without parent"},
      {"port_at_parent: 2", "port_at_parent: 1",
       "17: switch \"leaf2\": port_at_parent 1 of switch \"spine\" is used by switch \"leaf1\" too"},
      {"port_at_parent: 2", "port_at_parent: 3",
       "17: switch \"leaf2\": port_at_parent 3 is not among the ports of switch \"spine\""},
      {"port: 1\n", "port: 9\n", "22: worker \"w0\": port 9 of switch \"leaf1\" is used by switch \"leaf1\" too"},
      {"port: 1\n", "port: 0\n", "22: worker \"w0\": port \"0\": allowed are 1 to 65535"},
      {"{1: 100G, 2: 100G}", "{1: 100G, 2: quick}",
       "6: speed \"quick\": allowed is a number with M, G or T, as in 100G"},
      {"{1: 100G, 2: 100G}", "{1: 100G, 1: 100G}", "6: switch \"spine\": port 1 is listed twice"},
      {"{1: 100G, 2: 100G}", "[1, 2]", "6: switch \"spine\": ports must map numbers to speeds, as in {1: 100G}"},
      {"speed: 100G", "speed: 100", "23: speed \"100\": allowed is a number with M, G or T, as in 100G"},
      {"name: w1", "name: w0", "24: worker name \"w0\" is used twice"},
      {"[10.0.1.2]", "[]", "24: worker \"w1\": addresses: there is none; at least one is needed"},
      {"[10.0.1.2]", "10.0.1.2", "24: worker \"w1\": addresses must be a list"},
      {"[10.0.1.2]", "[10.0.1.2:9]", "24: worker \"w1\": address \"10.0.1.2:9\": allowed is one without a port"},
      {"[10.0.1.2]", "[10.0.1.1]", "24: worker \"w1\": address \"10.0.1.1\" is that of worker \"w0\" too"},
      {"[10.0.1.2]", "[224.0.0.1]", "24: worker \"w1\": address \"224.0.0.1\": allowed is a unicast one"},
      {"[10.0.1.2]", "[0.0.0.0]", "24: worker \"w1\": address \"0.0.0.0\": allowed is a unicast one"},
      {"[10.0.1.2]", "[\"ff02::1\"]", "24: worker \"w1\": address \"ff02::1\": allowed is a unicast one"},
      {"switch: leaf2}", "switch: leaf3}",
       "24: worker \"w1\": switch \"leaf3\" is no switch of this file; allowed are spine, leaf1, leaf2"},
      {"switch: leaf2}", "switch: leaf2, rack: 3}",
       "24: a worker has no key \"rack\"; allowed are name, addresses, switch, port, speed"},
  };
  for (const Mistake& mistake : mistakes)
    EXPECT_EQ(socket_error(with(kGood, mistake.old, mistake.fresh)), mistake.message);
}

// docs/planning.md: what the planner reads besides.
const char* const kForPlanner = R"(switches:
  - {name: ps, agent: a:1, address: 10.0.0.9, capacity: 9G, forwards: false}
  - {name: spine, agent: b:1, address: 10.0.0.1, ports: {1: 100G}}
  - {name: plain, aggregates: false, parent: spine, ports: {1: 1G}}
  - {name: leaf, agent: c:1, address: 10.0.0.2, parent: plain, parent_port: 1, port_at_parent: 7}
workers:
  - {name: w0, addresses: [10.0.1.1], switch: plain, port: 5}
  - {name: w1, addresses: [10.0.1.2], switch: leaf, port: 2}
links:
  - {ends: [ps, spine], speed: 9G, ports: [1, 3]}
  - {ends: [plain, w0], speed: [3G, 500M]}
)";

TEST(TopologyFile, WhatThePlannerReadsIsNoMistake) {
  const TemporaryFile file(kForPlanner);
  const auto read = read_topology(file.path());
  ASSERT_TRUE(read.ok()) << read.status().message();
  const controller::Topology& topology = read.value();
  ASSERT_EQ(topology.switches.size(), 3U) << "what does not aggregate is passed";
  EXPECT_EQ(topology.switches[2].name, "leaf");
  EXPECT_EQ(topology.switches[2].parent, 1) << "the nearest above that aggregates";
  EXPECT_EQ(topology.switches[2].up.port, 1U);
  EXPECT_EQ(topology.switches[2].up.port_at_parent, 0U) << "it is a port of another switch";
  EXPECT_EQ(topology.workers[0].attached, 1);
  EXPECT_EQ(topology.workers[0].port, 0U);
  EXPECT_EQ(topology.workers[1].attached, 2);
  EXPECT_EQ(topology.workers[1].port, 2U);
}

TEST(TopologyFile, MistakesForThePlannerAreNamedWithTheirLine) {
  const Mistake mistakes[] = {
      {"capacity: 9G", "capacity: 9", "2: speed \"9\": allowed is a number with M, G or T, as in 100G"},
      {"forwards: false", "forwards: no", "2: switch \"ps\": forwards \"no\": allowed are true and false"},
      {"aggregates: false", "aggregates: 0", "4: switch \"plain\": aggregates \"0\": allowed are true and false"},
      {"aggregates: false", "aggregates: false, capacity: 1G",
       "4: switch \"plain\": capacity means nothing with aggregates: false"},
      {"name: plain", "name: ps", "4: switch name \"ps\" is used twice"},
      {"{1: 1G}", "{0: 1G}", "4: switch \"plain\": port \"0\": allowed are 1 to 65535"},
      {"parent: spine", "parent: plain", "4: parents form a cycle: plain -> plain"},
      {"parent: plain", "parent: plane",
       "5: switch \"leaf\": parent \"plane\" is no switch of this file; allowed are ps, spine, leaf, plain"},
      {"port_at_parent: 7", "port_at_parent: 0", "5: switch \"leaf\": port_at_parent \"0\": allowed are 1 to 65535"},
      {"aggregates: false, parent: spine", "aggregates: false",
       "7: worker \"w0\": switch \"plain\" does not aggregate, and has no parent that does"},
      {"[ps, spine]", "[ps]", "10: a link: ends: there are 1; allowed are 2, one for each end"},
      {"[ps, spine]", "[ps, spin]", "10: a link: end \"spin\" is no switch or worker of this file"},
      {"[ps, spine]", "[ps, ps]", "10: link ps-ps: both ends are the same; allowed are two different ones"},
      {"[ps, spine]", "[w0, plain]", "11: link plain-w0 is listed twice"},
      {"speed: 9G", "mtu: 9000", "10: a link has no key \"mtu\"; allowed are ends, speed, ports"},
      {", speed: 9G", "", "10: link ps-spine needs the key \"speed\""},
      {"[3G, 500M]", "[3G]", "11: link plain-w0: speed: there are 1; allowed are 2, one for each end"},
      {"[3G, 500M]", "[3G, 500]", "11: speed \"500\": allowed is a number with M, G or T, as in 100G"},
      {"[1, 3]", "[1, 65536]", "10: link ps-spine: port \"65536\": allowed are 0 to 65535"},
  };
  for (const Mistake& mistake : mistakes) {
    EXPECT_EQ(socket_error(with(kForPlanner, mistake.old, mistake.fresh)), mistake.message);
  }
  EXPECT_EQ(socket_error("switches: [{name: a, aggregates: false}]\n"),
            "1: switches: none of them aggregates; at least one is needed");
}

TEST(TopologyFile, SwitchesAndWorkersMustBeThere) {
  EXPECT_EQ(socket_error("switches: []\n"), "1: switches: there is none; at least one is needed");
  EXPECT_EQ(socket_error("workers: []\n"), "1: the topology needs the key \"switches\"");
  const std::string two =
      "switches:\n  - {name: a, agent: a:1, address: 10.0.0.1}\n  - {name: b, agent: b:1, address: 10.0.0.2}\n";
  EXPECT_EQ(socket_error(two), "1: workers: missing; with 2 switches the topology must say which worker is at which");
  EXPECT_EQ(socket_error(two + "workers: []\n"),
            "4: workers: there is none; leave the key out where any worker may come");
}

TEST(TopologyFile, TokenFilesAreRead) {
  const TemporaryFile token("sesame\n");
  const std::string text = "switches:\n  - name: s\n    agent: a:1\n    address: 10.0.0.1\n    agent_token_file: ";
  const TemporaryFile file(text + token.path() + "\n");
  EXPECT_EQ(read_topology(file.path()).value().switches[0].agent_token, "sesame");
  const std::string name = token.path().substr(token.path().rfind('/') + 1);
  const TemporaryFile relative(text + name + "\n");
  EXPECT_EQ(read_topology(relative.path()).value().switches[0].agent_token, "sesame") << "beside the topology";
  EXPECT_EQ(socket_error(text + "/nonexistent\n"),
            "5: switch \"s\": agent_token_file: /nonexistent: cannot be read, or is empty");
}

TEST(TopologyFile, ALoneSwitchFitsOnTheCommandLine) {
  const auto topology = lone_switch("agent.example:50051=10.0.0.1");
  ASSERT_TRUE(topology.ok());
  EXPECT_EQ(topology.value().switches[0].agent, "agent.example:50051");
  EXPECT_EQ(to_string(topology.value().switches[0].address), "10.0.0.1:48879");
  EXPECT_EQ(lone_switch("unix:/run/agent=10.0.0.1").value().switches[0].agent, "unix:/run/agent");
  EXPECT_EQ(to_string(lone_switch("a:1=[fe80::1]:7").value().switches[0].address), "[fe80::1]:7");
  for (const char* const bad : {"", "a:1", "a=10.0.0.1", "unix:=10.0.0.1", "a:1=", "a:1=name:7", "a:1=0.0.0.0",
                                "a:1=239.1.2.3", "=10.0.0.1", "a:1=10.0.0.1:0", "0.0.0.0:1=10.0.0.1"}) {
    const auto refused = lone_switch(bad);
    ASSERT_FALSE(refused.ok()) << bad;
    EXPECT_NE(refused.status().message().find("AGENT=ADDRESS"), std::string::npos);
  }
}

}  // namespace
}  // namespace switchml
