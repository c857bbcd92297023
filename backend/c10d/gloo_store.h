// The group's store as Gloo sees it. Gloo's threads wait in a store for the addresses of other ranks, for the
// whole timeout if need be; a client of c10d's TCPStore that waits holds a lock against all others that share it.
// This one polls instead, can be interrupted, and says which rank did not come.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "c10d/compat.h"

namespace switchml {

/// Thread-safe as far as the store below is.
class GlooStore final : public c10d::Store {
 public:
  using Bytes = std::vector<uint8_t>;
  using Keys = std::vector<std::string>;

  /// Keys are stored in `below` under `prefix`. `interrupted` is asked while a call waits: anything but ok ends the
  /// wait with that error. `ranks`: the size of the group. A wait without a timeout of its own lasts `timeout`.
  GlooStore(c10::intrusive_ptr<c10d::Store> below, std::string prefix, int ranks, std::chrono::milliseconds timeout,
            std::function<Status()> interrupted);

  c10::intrusive_ptr<c10d::Store> clone() SWITCHML_LATER_OVERRIDE;
  using c10d::Store::set;
  void set(const std::string& key, const Bytes& value) override;
  /// Waits for the key.
  Bytes get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const Keys& keys) override;
  int64_t getNumKeys() override;
  void wait(const Keys& keys) override;
  void wait(const Keys& keys, const std::chrono::milliseconds& timeout) override;

 private:
  Keys prefixed(const Keys& keys) const;
  [[noreturn]] void throw_missing(const Keys& keys, std::chrono::milliseconds waited);

  const c10::intrusive_ptr<c10d::Store> below_;
  const std::string prefix_;
  const int ranks_;
  const std::function<Status()> interrupted_;
};

}  // namespace switchml
