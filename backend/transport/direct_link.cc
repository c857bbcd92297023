#include "transport/direct_link.h"

#include <algorithm>
#include <atomic>
#include <list>
#include <mutex>
#include <utility>
#include <vector>

#include "transport/frame_memory.h"

namespace switchml {

/// Memory of allocate(), which knows its own.
class DirectLink::Memory {
 public:
  uint8_t* allocate(size_t bytes) {
    uint8_t* const block = memory_.allocate(bytes);
    blocks_.emplace_back(block, block + bytes);
    return block;
  }
  bool has(const uint8_t* data, size_t size) const {
    return std::any_of(blocks_.begin(), blocks_.end(), [&](const auto& block) {
      return data >= block.first && data < block.second && size <= static_cast<size_t>(block.second - data);
    });
  }

 private:
  FrameMemory memory_;
  std::vector<std::pair<const uint8_t*, const uint8_t*>> blocks_;
};

/// Frames on their way to one reader, from any thread.
class DirectLink::Box {
 public:
  /// `reader` is woken by what comes, until close().
  explicit Box(Transport& reader) : reader_(&reader) {}

  void close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    reader_ = nullptr;
  }
  bool has_any() const { return has_any_.load(std::memory_order_acquire); }

  /// Frames in `memory`, if it is given, are not copied, but those that may change; it lives until they are released.
  void put(const TxFrame* frames, size_t count, const Endpoint& from, const std::shared_ptr<Memory>& memory) {
    std::list<Parcel> parcels = spare(count);
    auto parcel = parcels.begin();
    for (size_t i = 0; i < count; ++i) fill(*parcel++, frames[i], from, memory);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (reader_ == nullptr) return;
    waiting_.splice(waiting_.end(), parcels);
    has_any_.store(!waiting_.empty(), std::memory_order_release);
    reader_->wake();
  }

  // ---- the reader's ----
  size_t take(RxFrame* frames, size_t count) {
    if (!has_any()) return 0;
    const std::lock_guard<std::mutex> lock(mutex_);
    size_t taken = 0;
    for (; taken < count && !waiting_.empty(); ++taken) {
      frames[taken] = waiting_.front().frame;
      lent_.splice(lent_.end(), waiting_, waiting_.begin());
    }
    has_any_.store(!waiting_.empty(), std::memory_order_release);
    return taken;
  }
  void release() {
    if (lent_.empty()) return;
    for (Parcel& parcel : lent_) parcel.memory.reset();
    const std::lock_guard<std::mutex> lock(mutex_);
    spare_.splice(spare_.begin(), lent_);
  }

 private:
  struct Parcel {
    RxFrame frame;
    /// One of these has its bytes.
    std::vector<uint8_t> copy;
    std::shared_ptr<Memory> memory;
  };

  // The one that was released last is taken first: it is in the cache still.
  std::list<Parcel> spare(size_t count) {
    std::list<Parcel> parcels;
    const std::lock_guard<std::mutex> lock(mutex_);
    while (parcels.size() < count && !spare_.empty()) parcels.splice(parcels.end(), spare_, spare_.begin());
    if (parcels.size() < count) parcels.resize(count);
    return parcels;
  }

  static void fill(Parcel& parcel, const TxFrame& frame, const Endpoint& from, const std::shared_ptr<Memory>& memory) {
    const uint8_t* data = frame.data;
    if (memory != nullptr && !frame.may_change && memory->has(data, frame.size)) {
      parcel.memory = memory;
    } else {
      parcel.copy.assign(data, data + frame.size);
      data = parcel.copy.data();
    }
    parcel.frame = {data, frame.size, from, frame.ecn, true};
  }

  std::mutex mutex_;
  Transport* reader_;
  std::list<Parcel> waiting_;
  std::list<Parcel> spare_;
  std::atomic<bool> has_any_{false};
  std::list<Parcel> lent_;  // Only the reader's.
};

/// Where members and the switch find each other's box. Thread-safe.
class DirectLink::Hub {
 public:
  explicit Hub(Transport& reader) : switch_box(reader) {}

  std::shared_ptr<Box> add(const Endpoint& member, Transport& reader) {
    const std::lock_guard<std::mutex> lock(mutex_);
    has_any_ = true;
    return members_.emplace_back(member, std::make_shared<Box>(reader)).second;
  }
  void remove(const std::shared_ptr<Box>& box) {
    box->close();
    const std::lock_guard<std::mutex> lock(mutex_);
    members_.erase(
        std::find_if(members_.begin(), members_.end(), [&](const auto& member) { return member.second == box; }));
  }
  /// Null: no member is there.
  std::shared_ptr<Box> find(const Endpoint& at) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found =
        std::find_if(members_.begin(), members_.end(), [&](const auto& member) { return member.first == at; });
    return found == members_.end() ? nullptr : found->second;
  }
  bool had_any() const { return has_any_.load(std::memory_order_relaxed); }

  Box switch_box;

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<Endpoint, std::shared_ptr<Box>>> members_;
  std::atomic<bool> has_any_{false};
};

class DirectLink::Member final : public TransportDecorator {
 public:
  Member(std::shared_ptr<Hub> hub, const Endpoint& as, std::unique_ptr<Transport> link)
      : TransportDecorator(*link),
        link_(std::move(link)),
        hub_(std::move(hub)),
        as_(as),
        box_(hub_->add(as, *link_)),
        memory_(std::make_shared<Memory>()) {}
  ~Member() override { hub_->remove(box_); }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  bool is_direct() const override { return true; }
  uint8_t* allocate(size_t bytes) override { return memory_->allocate(bytes); }
  size_t send(const TxFrame* frames, size_t count) override {
    hub_->switch_box.put(frames, count, as_, memory_);
    return count;
  }
  // What comes by the socket still, as answers to repeated requests do, is late. Unread it would end every wait.
  size_t receive(RxFrame* frames, size_t count) override {
    const size_t taken = box_->take(frames, count);
    if (taken == 0 && below().receive(frames, count) > 0) below().release();
    return taken;
  }
  void release() override { box_->release(); }
  void wait(Duration timeout) override {
    if (!box_->has_any()) below().wait(timeout);
  }

 private:
  const std::unique_ptr<Transport> link_;
  const std::shared_ptr<Hub> hub_;
  const Endpoint as_;
  const std::shared_ptr<Box> box_;
  const std::shared_ptr<Memory> memory_;
};

DirectLink::DirectLink(std::unique_ptr<Transport> link)
    : TransportDecorator(*link), link_(std::move(link)), hub_(std::make_shared<Hub>(*link_)) {}

DirectLink::~DirectLink() { hub_->switch_box.close(); }

std::unique_ptr<Transport> DirectLink::admit(const Endpoint& as, std::unique_ptr<Transport> link) {
  return std::make_unique<Member>(hub_, as, std::move(link));
}

size_t DirectLink::send(const TxFrame* frames, size_t count) {
  if (!hub_->had_any()) return below().send(frames, count);
  size_t refused = count;  // the first that was not taken
  for (size_t begin = 0, end = 0; begin < count; begin = end) {
    const auto box = hub_->find(*frames[begin].to);
    do {
      ++end;
    } while (end < count && (frames[end].to == frames[begin].to || hub_->find(*frames[end].to) == box));
    if (box != nullptr) {
      box->put(frames + begin, end - begin, {}, nullptr);
    } else if (const size_t taken = below().send(frames + begin, end - begin); taken < end - begin) {
      refused = std::min(refused, begin + taken);
    }
  }
  return refused;
}

size_t DirectLink::receive(RxFrame* frames, size_t count) {
  const size_t taken = hub_->switch_box.take(frames, count);
  const size_t all = taken + below().receive(frames + taken, count - taken);
  for (size_t i = taken; i < all; ++i) frames[i].is_direct = false;  // Their transport knows nothing of it.
  return all;
}

void DirectLink::release() {
  hub_->switch_box.release();
  below().release();
}

void DirectLink::wait(Duration timeout) {
  if (!hub_->switch_box.has_any()) below().wait(timeout);
}

}  // namespace switchml
