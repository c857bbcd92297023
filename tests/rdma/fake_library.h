// The library of cards that are not there, as a test loads it.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "fake_verbs.h"
#include "transport/rdma/verbs.h"

namespace switchml::fake_verbs {

class Library {
 public:
  explicit Library(const Behaviour& behaviour = {}) : handle_(::dlopen(SWITCHML_FAKE_VERBS, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw std::runtime_error(::dlerror());
    function<Configure>("fake_verbs_configure")(behaviour);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  /// All users of the library must have ended.
  ~Library() {
    EXPECT_EQ(count().objects, 0U) << "objects are left";
    function<Configure>("fake_verbs_configure")(Behaviour());  // The library may stay loaded.
    ::dlclose(handle_);
  }

  static rdma::Verbs verbs() { return rdma::Verbs::load(SWITCHML_FAKE_VERBS).value(); }
  void fail_once(const char* called, int error, int after = 0) const {
    function<FailOnce>("fake_verbs_fail_once")(called, error, after);
  }
  /// From now on.
  void behave(const Behaviour& behaviour) const { function<Configure>("fake_verbs_configure")(behaviour); }
  void break_pair(uint32_t qp_num) const { function<Break>("fake_verbs_break")(qp_num); }
  void tell(ibv_event_type type) const { function<Tell>("fake_verbs_tell")(type); }
  /// All that there are.
  void break_pairs() const { break_pair(0); }
  Counts count() const {
    Counts counts;
    function<Count>("fake_verbs_count")(&counts);
    return counts;
  }

 private:
  template <typename F>
  F function(const char* name) const {
    return reinterpret_cast<F>(::dlsym(handle_, name));
  }

  void* handle_;
};

}  // namespace switchml::fake_verbs
