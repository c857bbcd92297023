#include "reflector.h"

#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "socket/address.h"
#include "socket/sockaddr.h"
#include "transport/frame_memory.h"
#include "transport/udp_socket.h"

namespace switchml::bench {

namespace {

constexpr size_t kMessages = 64;
constexpr size_t kBytes = 64 * 1024;

struct Message {
  iovec vector{};
  sockaddr_storage from{};
  alignas(cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))]{};
};

void prepare(Message& message, msghdr* header) {
  message.vector.iov_len = kBytes;
  *header = {};
  header->msg_name = &message.from;
  header->msg_namelen = sizeof message.from;
  header->msg_iov = &message.vector;
  header->msg_iovlen = 1;
  header->msg_control = message.control;
  header->msg_controllen = sizeof message.control;
}

/// Turns a received message into its answer, of the same size and segmentation.
void turn_round(Message& message, uint32_t bytes, msghdr* header) {
  message.vector.iov_len = bytes;
  int segment = 0;
  for (cmsghdr* c = CMSG_FIRSTHDR(header); c != nullptr; c = CMSG_NXTHDR(header, c)) {
    if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) std::memcpy(&segment, CMSG_DATA(c), sizeof segment);
  }
  header->msg_flags = 0;
  header->msg_control = nullptr;
  header->msg_controllen = 0;
  if (segment <= 0 || static_cast<uint32_t>(segment) >= bytes) return;
  header->msg_control = message.control;
  header->msg_controllen = CMSG_SPACE(sizeof(uint16_t));
  std::memset(message.control, 0, sizeof message.control);
  cmsghdr* c = CMSG_FIRSTHDR(header);
  c->cmsg_level = IPPROTO_UDP;
  c->cmsg_type = UDP_SEGMENT;
  c->cmsg_len = CMSG_LEN(sizeof(uint16_t));
  const auto size = static_cast<uint16_t>(segment);
  std::memcpy(CMSG_DATA(c), &size, sizeof size);
}

}  // namespace

Status reflect(const Endpoint& at) {
  UdpOptions options;
  options.bind = at;
  options.receive_buffer_bytes = 32 << 20;
  auto socket = open_udp_socket(options);
  if (!socket.ok()) return socket.status();
  std::printf("listening on %s\n", to_string(socket.value().local).c_str());
  std::fflush(stdout);
  pthread_setname_np(pthread_self(), "switchml-switch");

  FrameMemory memory;
  uint8_t* bytes = memory.allocate(kMessages * kBytes);
  std::vector<Message> messages(kMessages);
  std::vector<mmsghdr> headers(kMessages);
  for (size_t i = 0; i < kMessages; ++i) messages[i].vector.iov_base = bytes + i * kBytes;
  const int fd = socket.value().fd.get();
  for (;;) {
    for (size_t i = 0; i < kMessages; ++i) prepare(messages[i], &headers[i].msg_hdr);
    const int got = ::recvmmsg(fd, headers.data(), kMessages, MSG_DONTWAIT, nullptr);
    if (got <= 0) {
      if (got < 0 && errno != EAGAIN && errno != EINTR) continue;  // An ICMP error of an answer.
      pollfd polled{fd, POLLIN, 0};
      ::poll(&polled, 1, -1);
      continue;
    }
    for (int i = 0; i < got; ++i) {
      const auto index = static_cast<size_t>(i);
      turn_round(messages[index], headers[index].msg_len, &headers[index].msg_hdr);
    }
    for (int sent = 0; sent < got;) {
      const int now = ::sendmmsg(fd, &headers[static_cast<size_t>(sent)], static_cast<unsigned>(got - sent), 0);
      sent += now > 0 ? now : 1;  // A refused one is lost.
    }
  }
}

}  // namespace switchml::bench
