// Opening the sockets of a TCP transport. None of them blocks.
#pragma once

#include "base/status.h"
#include "socket/fd.h"
#include "transport/tcp.h"

namespace switchml {

Status check_tcp_options(const TcpOptions& options);

/// A socket that listens at options.listen.
Result<Fd> listen_tcp(const TcpOptions& options);
/// The same at an address; a wildcard one takes IPv6 and IPv4, where this host has both.
Result<Fd> listen_tcp(const Endpoint& address);

/// Begins to connect, from `source` (size 0: wherever the kernel says), which then says where from; without success the
/// socket is invalid, and `error` says why. A connection to itself, which the kernel makes of one to a free port of
/// this host now and then, is refused.
Fd connect_tcp(const TcpOptions& options, const Endpoint& to, Endpoint* source, int* error);

/// The next connection that waits at `listener`, and its peer; invalid, and errno set: there is none.
Fd accept_tcp(int listener, Endpoint* from);

/// Closes without any wait of the kernel's: what is not sent yet is lost, the peer sees a reset, and the port is free
/// for the next connection. All of this holds though a forked child has the socket too.
void reset_tcp(Fd fd);

/// Closes once the kernel has sent what it was given. The peer sees the end though a forked child has the socket too.
void end_tcp(Fd fd);

/// Nothing is left to be read, and nothing will come. `error`: why; 0: the peer has closed.
bool is_over(int fd, int* error);

/// How long the peer's kernel has acknowledged nothing, if it has something to acknowledge; else 0.
Duration unacknowledged_for(int fd);

/// What the kernel says of a failed connection; 0: nothing.
int take_socket_error(int fd);

}  // namespace switchml
