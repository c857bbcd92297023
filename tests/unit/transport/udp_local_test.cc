#include "transport/udp_local.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

namespace switchml {
namespace {

struct Message {
  alignas(cmsghdr) uint8_t control[64] = {};
  msghdr header{};

  template <typename T>
  void put(int level, int type, const T& info) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(sizeof info);
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = level;
    c->cmsg_type = type;
    c->cmsg_len = CMSG_LEN(sizeof info);
    std::memcpy(CMSG_DATA(c), &info, sizeof info);
  }
};

Message received_at(uint32_t host) {
  in_pktinfo info{};
  info.ipi_ifindex = 3;
  info.ipi_spec_dst.s_addr = htonl(host);
  info.ipi_addr.s_addr = htonl(0xe0000001);  // what the packet said: it may be a group's address, which cannot answer
  Message message;
  message.put(IPPROTO_IP, IP_PKTINFO, info);
  message.header.msg_control = nullptr;  // the copy's own, see fix()
  return message;
}
msghdr& fix(Message& message) {
  message.header.msg_control = message.control;
  return message.header;
}

TEST(LocalAddresses, GivesEachAddressOneNumber) {
  LocalAddresses locals;
  Message a = received_at(0x0a000001);
  Message b = received_at(0x0a000002);
  EXPECT_EQ(locals.learn(fix(a)), 1);
  EXPECT_EQ(locals.learn(fix(b)), 2);
  EXPECT_EQ(locals.learn(fix(a)), 1);
  EXPECT_EQ(locals.learn(msghdr{}), 0) << "a message without a note";
}

TEST(LocalAddresses, WritesTheSourceAddressAlone) {
  LocalAddresses locals;
  Message a = received_at(0x0a000001);
  const uint8_t via = locals.learn(fix(a));
  alignas(cmsghdr) uint8_t control[LocalAddresses::kControlBytes];
  ASSERT_EQ(locals.write_control(via, control), CMSG_SPACE(sizeof(in_pktinfo)));
  in_pktinfo info;
  std::memcpy(&info, CMSG_DATA(reinterpret_cast<cmsghdr*>(control)), sizeof info);
  EXPECT_EQ(info.ipi_spec_dst.s_addr, htonl(0x0a000001));
  EXPECT_EQ(info.ipi_ifindex, 0) << "any interface may carry the answer";
  EXPECT_EQ(info.ipi_addr.s_addr, 0U);
  EXPECT_EQ(locals.write_control(0, control), 0U);
  EXPECT_EQ(locals.write_control(2, control), 0U);
}

TEST(LocalAddresses, ALinkLocalAddressKeepsItsLink) {
  for (const char* text : {"fe80::1", "2001:db8::1"}) {
    in6_pktinfo info{};
    info.ipi6_ifindex = 4;
    ASSERT_EQ(::inet_pton(AF_INET6, text, &info.ipi6_addr), 1);
    Message message;
    message.put(IPPROTO_IPV6, IPV6_PKTINFO, info);
    LocalAddresses locals;
    alignas(cmsghdr) uint8_t control[LocalAddresses::kControlBytes];
    ASSERT_EQ(locals.write_control(locals.learn(message.header), control), CMSG_SPACE(sizeof info));
    in6_pktinfo out;
    std::memcpy(&out, CMSG_DATA(reinterpret_cast<cmsghdr*>(control)), sizeof out);
    EXPECT_EQ(std::memcmp(&out.ipi6_addr, &info.ipi6_addr, sizeof out.ipi6_addr), 0);
    EXPECT_EQ(out.ipi6_ifindex, text[0] == 'f' ? 4U : 0U);
  }
}

TEST(LocalAddresses, TheTableIsBounded) {
  LocalAddresses locals;
  for (uint32_t i = 1; i <= 255; ++i) {
    Message message = received_at(0x0a000000 + i);
    EXPECT_EQ(locals.learn(fix(message)), i);
  }
  Message one_more = received_at(0x0a000200);
  EXPECT_EQ(locals.learn(fix(one_more)), 0);
  Message known = received_at(0x0a000007);
  EXPECT_EQ(locals.learn(fix(known)), 7);
}

TEST(LocalAddresses, ManyThreadsAgreeAboutTheNumbers) {
  LocalAddresses addresses;
  std::array<std::array<uint8_t, 40>, 4> numbers{};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < numbers.size(); ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 40; ++i) {
        const size_t host = (i * 7 + t * 11) % 40;
        Message message = received_at(0x7f000001 + static_cast<uint32_t>(host));
        numbers[t][host] = addresses.learn(fix(message));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<uint8_t> distinct;
  for (size_t host = 0; host < 40; ++host) {
    for (const auto& seen : numbers) EXPECT_EQ(seen[host], numbers[0][host]) << "address " << host;
    distinct.insert(numbers[0][host]);
  }
  EXPECT_EQ(distinct.size(), 40U);
  EXPECT_EQ(distinct.count(0), 0U);
}

}  // namespace
}  // namespace switchml
