// What lies in a live page, the file that tells outsiders what a process's groups do (live_page.h). It describes
// itself: behind the head is a text in JSON with each field's name, place and type, which python/switchml/_live.py
// reads. So a page is read right by another version too.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace switchml::live {

/// A number that one thread at a time writes, and other processes read.
template <typename T>
struct Shared {
  static_assert(std::is_integral_v<T> && std::atomic<T>::is_always_lock_free, "processes share no lock");
  /// What was set before is there before it: a row's id is 0 before the rest of it changes.
  void set(T value) { number.store(value, std::memory_order_release); }
  T get() const { return number.load(std::memory_order_relaxed); }
  std::atomic<T> number{0};
};

/// The first bytes of a page.
struct Head {
  char magic[8];           // kMagic
  uint32_t text_bytes;     // Of the description, which follows.
  uint32_t group_slots;    // Groups that it has had room for so far: none lies behind these.
  int64_t pid;             // Of the owner.
  uint64_t pid_namespace;  // The number of its inode, in which the former counts; 0: not known.
};
inline constexpr char kMagic[] = "SWLIVE1";  // With its zero it fills Head::magic.

/// A call. That of number n is at (n - 1) modulo kRows. Times: nanoseconds since 1970; 0: not yet.
struct Row {
  std::atomic<uint64_t> id{0};  // Number of the call in the page, from 1 on; 0: none, or it is being written.
  Shared<uint64_t> sequence;    // Of the group's collective; a message has that of the last one.
  Shared<uint64_t> bytes;
  Shared<int64_t> created, started, ended;
  Shared<uint32_t> group;  // Group::number
  Shared<int32_t> peer;    // A message's other end; -1: a collective, or not known yet.
  Shared<uint8_t> call;    // Its place in the description's names.
  Shared<uint8_t> kind;    // kCollective ...
  Shared<uint8_t> failed;
};
inline constexpr uint8_t kCollective = 0, kSend = 1, kReceive = 2;
static_assert(sizeof(Row) == 64, "a cache line");

/// This process's part in a group. Texts end with a zero, or at the end of their room.
struct Group {
  std::atomic<uint32_t> version{0};  // Odd: texts are being written.
  Shared<uint32_t> number;           // In the page, from 1 on; 0: this place is free.
  Shared<int32_t> rank, size;
  Shared<uint32_t> global_rank;
  Shared<uint8_t> is_open;     // All ranks have started.
  Shared<uint8_t> encrypts;    // What leaves its ranks is encrypted.
  Shared<uint64_t> identity;   // The same on all ranks, and of no other group; 0: not known yet.
  Shared<int64_t> since;       // Its opening began.
  Shared<uint64_t> called;     // The number of its last collective.
  Shared<uint64_t> completed;  // The same of those that have completed.
  Shared<uint64_t> calls;      // Of any kind.

  // What it waits for, as its engine sees it, or saw it at `waits_at`.
  Shared<int64_t> waits_at;
  Shared<uint64_t> waits_in;     // The number of the collective.
  Shared<uint64_t> waits_chunk;  // The chunk's number in its stream: the sequence number of its packets.
  Shared<int32_t> waits_slot;

  // Packets, as of `counted_at`.
  Shared<int64_t> counted_at;
  Shared<uint64_t> packets_sent, retransmissions, repeats_waiting, damaged;

  Shared<uint32_t> doors_bytes;  // The private text's length (kDoors).
  char name[64];
  char transport[24];
  char switch_name[128];
  char waits_for[256];
  char failure[256];  // Why the group has failed; empty: it has not.
};
inline constexpr size_t kGroupBytes = 896;
static_assert(sizeof(Group) <= kGroupBytes && alignof(Group) == 8, "groups lie one behind the other");

// Where what lies in a page. What other hosts may have ends at kDoors.
inline constexpr size_t kMostText = 4096 - sizeof(Head);
inline constexpr size_t kRowsAt = 4096;
inline constexpr size_t kRows = 256;
inline constexpr size_t kGroupsAt = kRowsAt + kRows * sizeof(Row);
inline constexpr size_t kGroups = 48;
inline constexpr size_t kDoors = kGroupsAt + kGroups * kGroupBytes;
/// For each group there is room for where its ranks answer questions, and for what these are proved by.
inline constexpr size_t kDoorsRoom = 128 << 10;

/// What a page says of its process, once.
struct Owner {
  std::string version;
  std::string host;
  std::vector<std::string> calls;  // The names of calls, by number.
};
/// The number that Head has of this process.
uint64_t pid_namespace();
/// At most kMostText bytes of JSON.
std::string description(const Owner& owner);

}  // namespace switchml::live
