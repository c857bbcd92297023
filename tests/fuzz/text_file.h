// An input as a file of its own, alone in a folder, for readers that want a path.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "check.h"

namespace switchml::fuzz {

class TextFile {
 public:
  TextFile() {
    std::string name = (std::filesystem::temp_directory_path() / "switchml_fuzz_XXXXXX").string();
    check(mkdtemp(name.data()) != nullptr, "a folder for the input can be made");
    folder_ = name;
  }
  ~TextFile() { std::filesystem::remove_all(folder_); }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  std::string path() const { return (folder_ / "input").string(); }
  void write(const std::string& text) const { std::ofstream(path(), std::ios::trunc) << text; }

 private:
  std::filesystem::path folder_;
};

}  // namespace switchml::fuzz
