// Which of the sockets that share a port gets a datagram: the one at whose place its slot is at home
// (wire/slot_partition.h). Without this the kernel goes by the sender's address.
#pragma once

namespace switchml {

/// For all sockets of the group that `fd` belongs to, `sockets` in number, counted as they were bound. Control messages
/// and whatever has no header go to the first. A datagram that the kernel coalesced goes where its first frame belongs.
/// False: this kernel, or what confines this process, does not allow it.
bool steer_by_slot(int fd, int sockets);

}  // namespace switchml
