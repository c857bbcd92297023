#include "shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace switchml::shm {

namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Status failed(const char* what, size_t bytes) {
  return {Code::kUnavailable, std::string(what) + " for " + std::to_string(bytes) +
                                  " bytes of memory that ranks share: " + std::generic_category().message(errno)};
}

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif

// It is never executed, which some systems insist on being told (vm.memfd_noexec), and kernels before 6.3 refuse.
Fd create_memory() {
  constexpr unsigned kNeverExecuted = 0x0008;  // MFD_NOEXEC_SEAL
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  Fd fd(::memfd_create("switchml", kFlags | kNeverExecuted));
  if (!fd.valid() && errno == EINVAL) fd = Fd(::memfd_create("switchml", kFlags));
  return fd;
}

}  // namespace

size_t page_bytes() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }
size_t in_pages(size_t bytes) {
  const size_t page = page_bytes();
  return (bytes + page - 1) / page * page;
}

// Tried on a page: of no bytes some systems take any advice.
bool can_populate() {
  const size_t page = page_bytes();
  void* const probe = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (probe == MAP_FAILED) return false;
  const bool can = ::madvise(probe, page, MADV_POPULATE_WRITE) == 0;
  ::munmap(probe, page);
  return can;
}

Status populate(const void* data, size_t bytes) {
  const size_t before = reinterpret_cast<uintptr_t>(data) % page_bytes();
  // Not written to: madvise takes what it takes as const or not.
  auto* const begin = const_cast<uint8_t*>(static_cast<const uint8_t*>(data)) - before;
  while (::madvise(begin, before + bytes, MADV_POPULATE_WRITE) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno == EINVAL) return {};
    if (errno == EFAULT) errno = ENOMEM;  // touching the page would be a signal
    return failed("no room", bytes);
  }
  return {};
}

Segment::Segment(Segment&& other) noexcept
    : fd_(std::move(other.fd_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Segment::~Segment() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Result<Segment> Segment::create(size_t bytes) {
  if (bytes == 0 || bytes > kMaxBytes) {
    return Status(
        Code::kInvalidArgument,
        std::to_string(bytes) + " bytes of memory that ranks share: allowed are 1 to " + std::to_string(kMaxBytes));
  }
  Fd fd = create_memory();
  if (!fd.valid()) return failed("memfd_create", bytes);
  if (::fchmod(fd.get(), S_IRUSR | S_IWUSR) != 0) return failed("fchmod", bytes);
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return failed("ftruncate", bytes);
  // Missing memory is to be an error, and no signal when it is touched: now, if it cannot be one later.
  if (!can_populate() && ::fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes)) != 0) return failed("fallocate", bytes);
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return failed("sealing", bytes);
  return map(std::move(fd), bytes);
}

// A segment that could shrink would end its readers by SIGBUS.
Result<Segment> Segment::adopt(Fd fd, size_t bytes) {
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return failed("fstat", bytes);
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);  // some kernels add one of their own
  if (static_cast<size_t>(status.st_size) != bytes || seals < 0 || (seals & kSeals) != kSeals) {
    return Status(Code::kMismatch, "what was handed over is no memory of " + std::to_string(bytes) +
                                       " bytes for ranks to share: install the same switchml on all ranks");
  }
  return map(std::move(fd), bytes);
}

Result<Segment> Segment::map(Fd fd, size_t bytes) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return failed("mmap", bytes);
  ::madvise(data, bytes, MADV_DONTFORK);  // a data loader that outlives its parent would keep it
  ::madvise(data, bytes, MADV_DONTDUMP);  // a core dump would give memory to all of it
  return Segment(std::move(fd), static_cast<uint8_t*>(data), bytes);
}

}  // namespace switchml::shm
