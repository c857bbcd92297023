#include "transport/udp_steering.h"

#include <linux/filter.h>
#include <sys/socket.h>

#include <cstdint>
#include <iterator>

#include "wire/packet.h"
#include "wire/slot_partition.h"

namespace switchml {

namespace {

// Where the fields lie in a frame, which is where the kernel's program begins to count (docs/protocol.md).
constexpr uint32_t kKindAt = 0;
constexpr uint32_t kJobAt = 2;
constexpr uint32_t kSlotAt = 8;

sock_filter statement(uint16_t code, uint32_t value) { return {code, 0, 0, value}; }

}  // namespace

bool steer_by_slot(int fd, int sockets) {
  // A load behind the end of a datagram ends the program with 0: the first socket.
  sock_filter program[] = {
      statement(BPF_LD | BPF_B | BPF_ABS, kKindAt),
      statement(BPF_ALU | BPF_AND | BPF_K, 0x0f),
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, static_cast<uint32_t>(wire::Kind::kRequest)},
      statement(BPF_RET | BPF_K, 0),
      statement(BPF_LD | BPF_B | BPF_ABS, kJobAt),
      statement(BPF_MISC | BPF_TAX, 0),
      statement(BPF_LD | BPF_H | BPF_ABS, kSlotAt),
      statement(BPF_ALU | BPF_RSH | BPF_K, wire::kPartitionSlotsShift),
      statement(BPF_ALU | BPF_ADD | BPF_X, 0),
      statement(BPF_ALU | BPF_MOD | BPF_K, static_cast<uint32_t>(sockets)),
      statement(BPF_RET | BPF_A, 0),
  };
  const sock_fprog attached{static_cast<uint16_t>(std::size(program)), program};
  return ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &attached, sizeof attached) == 0;
}

}  // namespace switchml
