// Answers questions of `python -m switchml status` on other hosts: a thread that sleeps on a port. One that shows
// that it knows the door's key gets the pages of all processes of this user on this host, also of those that are
// stopped. Pages of the same user have the key (LiveGroup::show_doors).
//
// Both ends prove that they know the key. What follows is neither encrypted nor authenticated.
//
//   door: kDoorMagic, a nonce of 8 bytes
//   asker: a nonce of 8 bytes, 8 bytes of the HMAC-SHA256 of "ask" and both nonces
//   door: 8 bytes of that of "say" and both nonces, its clock; then the number of pages, and of each its length, state
//   and bytes
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "seal/seal_key.h"
#include "socket/endpoint.h"
#include "socket/fd.h"

namespace switchml {

/// A page as it goes to another host.
struct LivePageCopy {
  char state = '?';         // As /proc/PID/stat has it; 'X': its process has ended; '?': not known.
  std::vector<char> bytes;  // Without what other hosts must not have.
};
/// The pages of this user's processes in a folder; at most kMostPages.
std::vector<LivePageCopy> copy_pages(const std::string& folder);
inline constexpr size_t kMostPages = 1024;

inline constexpr char kDoorMagic[8] = {'S', 'W', 'L', 'D', 'O', 'O', 'R', '2'};

class LiveDoor {
 public:
  /// `listener` listens, on a TCP socket that does not block. Throws StatusError: the system gives no thread or no
  /// descriptor.
  LiveDoor(Fd listener, const SealKey& key, const std::string& folder);
  ~LiveDoor();
  LiveDoor(const LiveDoor&) = delete;
  LiveDoor& operator=(const LiveDoor&) = delete;

 private:
  class Server;
  const pid_t owner_;
  Fd wake_;  // Readable: it is over.
  std::thread thread_;
};

}  // namespace switchml
