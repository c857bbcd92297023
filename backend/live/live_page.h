// What this process's groups do, for `python -m switchml status`: in a file of shared memory that others of this user,
// and root, read without asking this process. So it tells where a process is that is stopped, or hangs.
//
// The file is in /dev/shm, else in $XDG_RUNTIME_DIR, while the process has groups. Its owner holds a lock on it, which
// ends with the process however that ends: a page that anybody can lock is of a dead process, and a later process
// removes it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "live/live_layout.h"
#include "socket/fd.h"

namespace switchml {

/// What a live page says of a group when it is made.
struct LiveGroupInfo {
  std::string name;
  int rank = 0;
  int size = 1;
  uint64_t global_rank = 0;
};

/// One call, as a live page has it.
struct LiveCall {
  uint64_t sequence = 0;
  uint64_t bytes = 0;
  uint8_t call = 0;  // Its name's number in the page.
  uint8_t kind = live::kCollective;
};

/// Packets of a group on this rank, all that there were.
struct LiveCounts {
  uint64_t packets_sent = 0, retransmissions = 0, repeats_waiting = 0, damaged = 0;
};

/// What a group waits for.
struct LiveWait {
  uint64_t sequence = 0;  // Of the collective.
  uint64_t chunk = 0;     // Sequence number of its packets.
  int slot = -1;          // -1: not known
  std::string missing;    // "no contribution from rank 1 for 2 s: ..."
};

class LivePage;

/// A group in its process's live page. Does nothing where there is no page, or no room in it, or in a forked child.
/// Thread-safe, but for begin() to ended(): one thread at a time calls these, for all groups of the page. They take no
/// lock and no system call.
class LiveGroup {
 public:
  LiveGroup() = default;
  LiveGroup(std::shared_ptr<LivePage> page, live::Group* place, uint32_t number);
  ~LiveGroup();
  LiveGroup(const LiveGroup&) = delete;
  LiveGroup& operator=(const LiveGroup&) = delete;

  /// A call is made at `now`, in nanoseconds since 1970; its number for the following ones. 0: it is not kept.
  uint64_t begin(const LiveCall& call, int64_t now);
  void started(uint64_t id, int64_t now);
  void set_peer(uint64_t id, int peer);
  /// True: what the page has of the group's packets is old; count() them.
  bool ended(uint64_t id, bool good, int64_t now);

  /// A number that only the group's ranks have; the page tells others a hash of it.
  void identify(uint64_t key);
  /// `encrypts`: what leaves the ranks is encrypted.
  void opened(const std::string& transport, const std::string& switch_name, bool encrypts = false);
  void waits(const LiveWait& wait);
  void count(const LiveCounts& counts);
  /// Where ranks of other hosts answer (live/live_door.h), and their keys: for this user alone. Too long: not shown.
  void show_doors(const std::string& text);
  /// Where the page is; empty: there is none.
  std::string folder() const;
  /// The group is over, or about to be. The first reason stays.
  void failed(const std::string& why);
  /// The group is no more. Idempotent.
  void end();

 private:
  bool is_shown() const;
  live::Row* row(uint64_t id) const;

  std::shared_ptr<LivePage> page_;  // Its memory stays after end().
  live::Group* place_ = nullptr;
  uint32_t number_ = 0;
  std::atomic<bool> has_ended_{false};
};

/// Thread-safe.
class LivePage {
 public:
  struct Options {
    std::string folder;              // "auto": the first of the usual ones that takes a page; "off": no page.
    std::vector<std::string> calls;  // Their names, by number.
  };
  /// In the page of this process, which is made where there is none: its first group's options count. Never null.
  static std::shared_ptr<LiveGroup> add_group(const Options& options, const LiveGroupInfo& info);
  /// Removes pages of dead processes of this user.
  static void clean(const std::string& folder);
  /// Opens what may be a page of this user's, where its name is wanted.
  static void for_each(const std::string& folder, const std::function<bool(const char* name)>& wants,
                       const std::function<void(int folder, const char* name, int file)>& see);

  ~LivePage();
  LivePage(const LivePage&) = delete;
  LivePage& operator=(const LivePage&) = delete;

  static constexpr char kPrefix[] = "switchml-live-";

 private:
  friend class LiveGroup;
  LivePage() = default;
  static std::shared_ptr<LivePage> make(const Options& options);
  Status open(const std::string& folder, const std::vector<std::string>& calls);
  std::shared_ptr<LiveGroup> add(const std::shared_ptr<LivePage>& self, const LiveGroupInfo& info);
  void leave(live::Group* place);
  bool inherited() const;
  void remove();

  live::Row* rows() const { return reinterpret_cast<live::Row*>(memory_ + live::kRowsAt); }
  live::Group* group(size_t i) const {
    return reinterpret_cast<live::Group*>(memory_ + live::kGroupsAt + i * live::kGroupBytes);
  }
  /// Others see the texts that it changes whole.
  void write(live::Group* place, uint32_t number, const std::function<void()>& change);

  unsigned born_in_ = 0;
  Fd file_;
  std::string folder_;
  std::string path_;  // Empty: the file has no name any more.
  uint8_t* memory_ = nullptr;
  std::mutex mutex_;  // Guards the rest, and texts in the page.
  uint32_t last_number_ = 0;
  size_t groups_ = 0;     // That have not ended.
  uint64_t last_id_ = 0;  // Not guarded: see LiveGroup.
};

/// Nanoseconds since 1970.
int64_t wall_clock();

}  // namespace switchml
