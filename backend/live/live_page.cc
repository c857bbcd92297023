#include "live/live_page.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "base/siphash.h"
#include "socket/close_on_fork.h"

namespace switchml {
namespace {

constexpr int64_t kCountInterval = 100'000'000;  // nanoseconds
constexpr size_t kMostFiles = 4096;              // Pages of a folder that are looked at.

/// The page of this process. A forked child has none at first: its parent's lock may be held for ever.
struct Current {
  std::mutex mutex;
  std::shared_ptr<LivePage> page;
};
Current* current = nullptr;  // outlives static destructors
Current& current_page() {
  static const bool made = [] {
    current = new Current;
    pthread_atfork(nullptr, nullptr, [] { current = new Current; });
    return true;
  }();
  static_cast<void>(made);
  return *current;
}

std::vector<std::string> usual_folders() {
  std::vector<std::string> folders = {"/dev/shm"};
  if (const char* runtime = std::getenv("XDG_RUNTIME_DIR")) folders.emplace_back(runtime);
  return folders;
}

live::Owner owner(const std::vector<std::string>& calls) {
  live::Owner owner;
  owner.version = SWITCHML_VERSION;
  char host[HOST_NAME_MAX + 1] = {};
  if (::gethostname(host, sizeof host - 1) == 0) owner.host = host;
  owner.calls = calls;
  return owner;
}

template <size_t room>
void put(char (&to)[room], const std::string& text) {
  std::memset(to, 0, room);
  std::memcpy(to, text.data(), std::min(text.size(), room));
}

/// By its name alone: the page of a dead process stays while another process has its number.
bool may_live(const char* name) {
  const long pid = std::strtol(name + sizeof LivePage::kPrefix - 1, nullptr, 10);
  return pid > 0 && (::kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM);
}

Status failure(const std::string& what) { return {Code::kUnavailable, what + ": " + std::strerror(errno)}; }

}  // namespace

int64_t wall_clock() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_1970).count();
}

// ---- the file ----

std::shared_ptr<LiveGroup> LivePage::add_group(const Options& options, const LiveGroupInfo& info) {
  if (options.folder == "off") return std::make_shared<LiveGroup>();
  Current& here = current_page();
  const std::lock_guard<std::mutex> lock(here.mutex);
  if (here.page == nullptr) here.page = make(options);
  if (here.page == nullptr) return std::make_shared<LiveGroup>();
  return here.page->add(here.page, info);
}

std::shared_ptr<LivePage> LivePage::make(const Options& options) {
  const bool chooses = options.folder.empty() || options.folder == "auto";
  Status why;
  for (const std::string& folder : chooses ? usual_folders() : std::vector<std::string>{options.folder}) {
    clean(folder);
    const std::shared_ptr<LivePage> page(new LivePage);
    why = page->open(folder, options.calls);
    if (why.ok()) return page;
  }
  const std::string text = "`python -m switchml status` does not see this process: " + why.message();
  if (chooses) SWITCHML_LOG(kInfo) << text;
  if (!chooses) SWITCHML_LOG(kWarning) << text;
  return nullptr;
}

Status LivePage::open(const std::string& folder, const std::vector<std::string>& calls) {
  born_in_ = fork_generation();
  // It gets its name when it is locked, or another process might take it for a dead one's.
  file_ = Fd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file_.valid()) return failure("no file in " + folder);
  close_on_fork(file_.get());
  // Memory that is not there when it is written to would end the process.
  if (const int error = ::posix_fallocate(file_.get(), 0, live::kDoors); error != 0) {
    errno = error;
    return failure("no memory for a file in " + folder);
  }
  if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) return failure("no lock on a file in " + folder);
  void* memory = ::mmap(nullptr, live::kDoors, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (memory == MAP_FAILED) return failure("a file in " + folder + " cannot be mapped");
  memory_ = static_cast<uint8_t*>(memory);
  const std::string text = live::description(owner(calls));
  if (text.size() > live::kMostText) return {Code::kUnavailable, "a live page has no room for its description"};
  for (size_t i = 0; i < live::kRows; ++i) new (rows() + i) live::Row;
  std::memcpy(memory_ + sizeof(live::Head), text.data(), text.size());
  auto* head = new (memory_) live::Head;
  std::memcpy(head->magic, live::kMagic, sizeof head->magic);
  head->text_bytes = static_cast<uint32_t>(text.size());
  head->group_slots = 0;
  head->pid = ::getpid();
  head->pid_namespace = live::pid_namespace();
  folder_ = folder;
  char name[64];
  std::snprintf(name, sizeof name, "/%s%d-%016llx", kPrefix, ::getpid(),
                static_cast<unsigned long long>(random_bits()));
  const std::string file = "/proc/self/fd/" + std::to_string(file_.get());
  if (::linkat(AT_FDCWD, file.c_str(), AT_FDCWD, (folder + name).c_str(), AT_SYMLINK_FOLLOW) != 0) {
    return failure("no name for a file in " + folder);
  }
  path_ = folder + name;
  return {};
}

LivePage::~LivePage() {
  if (!inherited()) {
    remove();
    if (file_.valid()) close_forgotten(file_.release());
  } else {
    file_.release();  // It was closed at the fork; the number may be another one's.
  }
  if (memory_ != nullptr) ::munmap(memory_, live::kDoors);
}

bool LivePage::inherited() const { return fork_generation() != born_in_; }

void LivePage::remove() {
  if (!path_.empty()) ::unlink(path_.c_str());
  path_.clear();
}

void LivePage::for_each(const std::string& folder, const std::function<bool(const char*)>& wants,
                        const std::function<void(int folder, const char* name, int file)>& see) {
  DIR* const listing = ::opendir(folder.c_str());
  if (listing == nullptr) return;
  size_t seen = 0;
  while (const dirent* entry = ::readdir(listing)) {
    if (std::strncmp(entry->d_name, kPrefix, sizeof kPrefix - 1) != 0) continue;
    if (++seen > kMostFiles) break;
    if (!wants(entry->d_name)) continue;
    const Fd file(::openat(::dirfd(listing), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat about {};
    const bool is_ours =
        file.valid() && ::fstat(file.get(), &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == ::geteuid();
    if (is_ours) see(::dirfd(listing), entry->d_name, file.get());
  }
  ::closedir(listing);
}

void LivePage::clean(const std::string& folder) {
  for_each(
      folder, [](const char* name) { return !may_live(name); },
      [](int listing, const char* name, int file) {
        if (::flock(file, LOCK_EX | LOCK_NB) == 0) ::unlinkat(listing, name, 0);
      });
}

// ---- groups ----

std::shared_ptr<LiveGroup> LivePage::add(const std::shared_ptr<LivePage>& self, const LiveGroupInfo& info) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++groups_;
  auto* head = reinterpret_cast<live::Head*>(memory_);
  for (size_t i = 0; i < live::kGroups; ++i) {
    live::Group* const place = group(i);
    const bool is_new = i == head->group_slots;
    if (!is_new && place->number.get() != 0) continue;
    new (place) live::Group;
    place->version.store(1);
    place->rank.set(info.rank);
    place->size.set(info.size);
    place->global_rank.set(static_cast<uint32_t>(info.global_rank));
    place->since.set(wall_clock());
    put(place->name, info.name);
    for (char* text : {place->transport, place->switch_name, place->waits_for, place->failure}) *text = 0;
    place->number.set(++last_number_);
    place->version.store(2);
    if (is_new) head->group_slots = static_cast<uint32_t>(i + 1);
    return std::make_shared<LiveGroup>(self, place, last_number_);
  }
  return std::make_shared<LiveGroup>(self, nullptr, 0);
}

void LivePage::leave(live::Group* place) {
  Current& here = current_page();
  const std::lock_guard<std::mutex> current_lock(here.mutex);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (place != nullptr) place->number.set(0);
  if (--groups_ > 0) return;
  remove();
  if (here.page.get() == this) here.page = nullptr;  // The caller has it, too.
}

void LivePage::write(live::Group* place, uint32_t number, const std::function<void()>& change) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (place->number.get() != number) return;  // The group has ended meanwhile, and another one may be there.
  place->version.store(place->version.load() + 1);
  change();
  place->version.store(place->version.load() + 1);
}

LiveGroup::LiveGroup(std::shared_ptr<LivePage> page, live::Group* place, uint32_t number)
    : page_(std::move(page)), place_(place), number_(number) {}

LiveGroup::~LiveGroup() { end(); }

bool LiveGroup::is_shown() const {
  return place_ != nullptr && !page_->inherited() && !has_ended_.load(std::memory_order_relaxed);
}

void LiveGroup::end() {
  if (page_ == nullptr || page_->inherited() || has_ended_.exchange(true)) return;
  page_->leave(place_);
}

void LiveGroup::identify(uint64_t key) {
  if (is_shown()) place_->identity.set(siphash24({key, 0}, "identity", 8) | 1);
}

void LiveGroup::opened(const std::string& transport, const std::string& switch_name, bool encrypts) {
  if (!is_shown()) return;
  page_->write(place_, number_, [&] {
    put(place_->transport, transport);
    put(place_->switch_name, switch_name);
    place_->encrypts.set(encrypts ? 1 : 0);
    place_->is_open.set(1);
  });
}

void LiveGroup::waits(const LiveWait& wait) {
  if (!is_shown()) return;
  page_->write(place_, number_, [&] {
    place_->waits_at.set(wall_clock());
    place_->waits_in.set(wait.sequence);
    place_->waits_chunk.set(wait.chunk);
    place_->waits_slot.set(wait.slot);
    put(place_->waits_for, wait.missing);
  });
}

void LiveGroup::show_doors(const std::string& text) {
  if (!is_shown() || text.size() > live::kDoorsRoom) return;
  const size_t slot = (reinterpret_cast<uint8_t*>(place_) - page_->memory_ - live::kGroupsAt) / live::kGroupBytes;
  const auto at = static_cast<off_t>(live::kDoors + slot * live::kDoorsRoom);
  const ssize_t written = ::pwrite(page_->file_.get(), text.data(), text.size(), at);
  if (written == static_cast<ssize_t>(text.size())) place_->doors_bytes.set(static_cast<uint32_t>(written));
}

std::string LiveGroup::folder() const { return is_shown() ? page_->folder_ : ""; }

void LiveGroup::count(const LiveCounts& counts) {
  if (!is_shown()) return;
  page_->write(place_, number_, [&] {
    place_->packets_sent.set(counts.packets_sent);
    place_->retransmissions.set(counts.retransmissions);
    place_->repeats_waiting.set(counts.repeats_waiting);
    place_->damaged.set(counts.damaged);
    place_->counted_at.set(wall_clock());
  });
}

void LiveGroup::failed(const std::string& why) {
  if (!is_shown()) return;
  page_->write(place_, number_, [&] {
    if (place_->failure[0] == 0) put(place_->failure, why);
  });
}

// ---- calls ----

uint64_t LiveGroup::begin(const LiveCall& call, int64_t now) {
  if (!is_shown()) return 0;
  const uint64_t id = ++page_->last_id_;
  live::Row& row = page_->rows()[(id - 1) % live::kRows];
  row.id.store(0, std::memory_order_relaxed);
  row.sequence.set(call.sequence);
  row.bytes.set(call.bytes);
  row.created.set(now);
  row.started.set(0);
  row.ended.set(0);
  row.group.set(number_);
  row.peer.set(-1);
  row.call.set(call.call);
  row.kind.set(call.kind);
  row.failed.set(0);
  row.id.store(id, std::memory_order_release);
  place_->calls.set(place_->calls.get() + 1);
  if (call.kind == live::kCollective && call.sequence > place_->called.get()) place_->called.set(call.sequence);
  return id;
}

live::Row* LiveGroup::row(uint64_t id) const {
  // A forked child begins none.
  if (id == 0 || has_ended_.load(std::memory_order_relaxed)) return nullptr;
  live::Row& row = page_->rows()[(id - 1) % live::kRows];
  return row.id.load(std::memory_order_relaxed) == id ? &row : nullptr;
}

void LiveGroup::started(uint64_t id, int64_t now) {
  if (live::Row* found = row(id)) found->started.set(now);
}

void LiveGroup::set_peer(uint64_t id, int peer) {
  if (live::Row* found = row(id)) found->peer.set(peer);
}

bool LiveGroup::ended(uint64_t id, bool good, int64_t now) {
  live::Row* const found = row(id);
  if (found == nullptr) return false;
  found->failed.set(good ? 0 : 1);
  found->ended.set(now);
  const uint64_t sequence = found->sequence.get();
  const bool is_collective = found->kind.get() == live::kCollective;
  if (good && is_collective && sequence > place_->completed.get()) place_->completed.set(sequence);
  return now - place_->counted_at.get() > kCountInterval;
}

}  // namespace switchml
