// A tree of files that is gone with its test; what stands for /proc and /sys of another machine.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace switchml {

class TemporaryTree {
 public:
  TemporaryTree() {
    char name[] = "/tmp/switchml-tree-XXXXXX";
    root_ = ::mkdtemp(name) != nullptr ? name : "";
  }
  ~TemporaryTree() {
    if (!root_.empty()) std::filesystem::remove_all(root_);
  }
  TemporaryTree(const TemporaryTree&) = delete;
  TemporaryTree& operator=(const TemporaryTree&) = delete;
  /// `path` begins with a slash; folders are made.
  void file(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  const std::string& root() const { return root_; }

 private:
  std::string root_;
};

}  // namespace switchml
