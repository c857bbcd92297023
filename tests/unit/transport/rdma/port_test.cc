#include "transport/rdma/port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "fake_library.h"
#include "socket/address.h"

namespace switchml::rdma {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const Endpoint kLoopback = literal_address("127.0.0.1", 7).value();
const Endpoint kElsewhere = literal_address("192.0.2.1", 7).value();

Result<Port> find(const std::string& wish, const Endpoint& local) {
  PortWish parsed;
  EXPECT_TRUE(parse_port_wish(wish, &parsed)) << wish;
  return find_port(fake_verbs::Library::verbs(), parsed, local);
}

TEST(Port, IsTheOneWithTheAddressForVersion2) {
  const fake_verbs::Library library;
  const auto port = find("", kLoopback);
  ASSERT_TRUE(port.ok()) << port.status().to_string();
  EXPECT_EQ(port->device, "fake0");
  EXPECT_EQ(port->number, 1);
  EXPECT_EQ(port->gid_index, 1) << "index 0 is the same address for version 1";
  EXPECT_EQ(to_string(port->gid), "::ffff:127.0.0.1");
  EXPECT_EQ(port->mtu, IBV_MTU_1024);
}

TEST(Port, OfIpVersion6IsFoundToo) {
  const fake_verbs::Library library;
  const auto port = find("", literal_address("[::1]:7", 0).value());
  ASSERT_TRUE(port.ok());
  EXPECT_EQ(port->gid_index, 2);
}

TEST(Port, OfTheDeviceThatIsNamed) {
  const fake_verbs::Library library;
  EXPECT_EQ(find("fake1", kLoopback)->device, "fake1");
  EXPECT_EQ(find("fake1:1:2", kElsewhere)->gid_index, 2) << "an index goes before the address";
}

TEST(Port, OfACardThatIsEmulatedOnlyWhereThatIsWished) {
  const fake_verbs::Library library;
  PortWish wish;
  wish.emulated = false;
  const auto none = find_port(fake_verbs::Library::verbs(), wish, kLoopback);
  EXPECT_THAT(none.status().message(), HasSubstr("fake0: emulated by software, and so used only where it is named"));
  wish.device = "fake1";
  EXPECT_TRUE(find_port(fake_verbs::Library::verbs(), wish, kLoopback).ok());
  fake_verbs::Behaviour behaviour;
  behaviour.emulated = false;
  const fake_verbs::Library real(behaviour);
  wish.device.clear();
  EXPECT_TRUE(find_port(fake_verbs::Library::verbs(), wish, kLoopback).ok());
}

TEST(Port, ThatIsNotThereIsExplainedByDevice) {
  const fake_verbs::Library library;
  const auto elsewhere = find("", kElsewhere);
  ASSERT_FALSE(elsewhere.ok());
  EXPECT_EQ(elsewhere.status().code(), Code::kUnsupported);
  EXPECT_THAT(elsewhere.status().message(),
              AllOf(HasSubstr("fake0: no port has the address 192.0.2.1 for RoCE version 2"), HasSubstr("fake1: ")));
  EXPECT_THAT(find("mlx5_0", kLoopback).status().message(), HasSubstr("fake0: not \"mlx5_0\", which is named"));
  EXPECT_THAT(find("fake0:2", kLoopback).status().message(), HasSubstr("fake0: no port 2 with the address 127.0.0.1"));
  EXPECT_THAT(find("fake0:1:9", kLoopback).status().message(), HasSubstr("GID index 9"));
  EXPECT_THAT(find("fake0:1:0", kLoopback).status().message(),
              HasSubstr("fake0: GID index 0 is not of RoCE version 2"));
}

// libibverbs does not list a device whose file is not in /dev.
TEST(Port, ADeviceThatAContainerWasNotGivenIsNamed) {
  const std::string folder = ::testing::TempDir() + "switchml-port-test-" + std::to_string(::getpid());
  EXPECT_EQ(why_none(folder), "there is none");
  ASSERT_TRUE(std::filesystem::create_directories(folder));
  EXPECT_EQ(why_none(folder), "there is none");
  for (const char* const device : {"mlx5_1", "mlx5_0"}) std::filesystem::create_directory(folder + "/" + device);
  EXPECT_THAT(why_none(folder), AllOf(HasSubstr("the kernel has mlx5_0, mlx5_1,"), HasSubstr("/dev/infiniband")));
  std::filesystem::remove_all(folder);
}

TEST(Port, WhatADeviceRefusesIsSaid) {
  const fake_verbs::Library library;
  for (const char* const function : {"ibv_open_device", "ibv_query_device", "ibv_query_gid_table", "ibv_query_port"}) {
    library.fail_once(function, EACCES);
    EXPECT_THAT(find("fake0", kLoopback).status().message(),
                AllOf(HasSubstr(function), HasSubstr("Permission denied")));
  }
  library.fail_once("ibv_open_device", EACCES);
  EXPECT_EQ(find("", kLoopback)->device, "fake1") << "the next one serves";
}

}  // namespace
}  // namespace switchml::rdma
