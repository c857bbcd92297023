// Ownership of a file descriptor.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace switchml {

/// Closes its descriptor; -1 is none.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  /// The descriptor is the caller's to close.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

/// This process or this host has no room for a descriptor; a listener stays readable all the same.
inline bool is_shortage(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

}  // namespace switchml
