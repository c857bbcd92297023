#include "live/live_layout.h"

#include <sys/stat.h>

#include <sstream>
#include <type_traits>

namespace switchml::live {
namespace {

// As Python's struct has them.
template <typename T>
const char* code() {
  if constexpr (sizeof(T) == 1) return "B";
  if constexpr (sizeof(T) == 4) return std::is_signed_v<T> ? "i" : "I";
  return std::is_signed_v<T> ? "q" : "Q";
}
template <typename Type, typename T>
std::string code_of(Shared<T> Type::* /*field*/) {
  return code<T>();
}
template <typename Type, typename T>
std::string code_of(std::atomic<T> Type::* /*field*/) {
  return code<T>();
}
template <typename Type, size_t room>
std::string code_of(char (Type::* /*field*/)[room]) {
  return std::to_string(room) + "s";
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? '?' : c;
  }
  return out + '"';
}

std::string field(const char* name, size_t at, const std::string& code) {
  return quoted(name) + ":[" + std::to_string(at) + "," + quoted(code) + "]";
}
#define SWITCHML_FIELD(type, name) field(#name, offsetof(type, name), code_of(&type::name))

std::string joined(const std::vector<std::string>& parts) {
  std::string all;
  for (const std::string& part : parts) all += (all.empty() ? "" : ",") + part;
  return all;
}

std::string fields_of_rows() {
  return joined({SWITCHML_FIELD(Row, id), SWITCHML_FIELD(Row, sequence), SWITCHML_FIELD(Row, bytes),
                 SWITCHML_FIELD(Row, created), SWITCHML_FIELD(Row, started), SWITCHML_FIELD(Row, ended),
                 SWITCHML_FIELD(Row, group), SWITCHML_FIELD(Row, peer), SWITCHML_FIELD(Row, call),
                 SWITCHML_FIELD(Row, kind), SWITCHML_FIELD(Row, failed)});
}

std::string fields_of_groups() {
  return joined({SWITCHML_FIELD(Group, version),
                 SWITCHML_FIELD(Group, number),
                 SWITCHML_FIELD(Group, rank),
                 SWITCHML_FIELD(Group, size),
                 SWITCHML_FIELD(Group, global_rank),
                 SWITCHML_FIELD(Group, is_open),
                 SWITCHML_FIELD(Group, encrypts),
                 SWITCHML_FIELD(Group, identity),
                 SWITCHML_FIELD(Group, since),
                 SWITCHML_FIELD(Group, called),
                 SWITCHML_FIELD(Group, completed),
                 SWITCHML_FIELD(Group, calls),
                 SWITCHML_FIELD(Group, waits_at),
                 SWITCHML_FIELD(Group, waits_in),
                 SWITCHML_FIELD(Group, waits_chunk),
                 SWITCHML_FIELD(Group, waits_slot),
                 SWITCHML_FIELD(Group, counted_at),
                 SWITCHML_FIELD(Group, packets_sent),
                 SWITCHML_FIELD(Group, retransmissions),
                 SWITCHML_FIELD(Group, repeats_waiting),
                 SWITCHML_FIELD(Group, damaged),
                 SWITCHML_FIELD(Group, doors_bytes),
                 SWITCHML_FIELD(Group, name),
                 SWITCHML_FIELD(Group, transport),
                 SWITCHML_FIELD(Group, switch_name),
                 SWITCHML_FIELD(Group, waits_for),
                 SWITCHML_FIELD(Group, failure)});
}

}  // namespace

uint64_t pid_namespace() {
  struct stat space {};
  return ::stat("/proc/self/ns/pid", &space) == 0 ? space.st_ino : 0;
}

std::string description(const Owner& owner) {
  std::ostringstream out;
  out << R"({"version":)" << quoted(owner.version) << R"(,"host":)" << quoted(owner.host) << R"(,"calls":[)";
  for (size_t i = 0; i < owner.calls.size(); ++i) out << (i == 0 ? "" : ",") << quoted(owner.calls[i]);
  out << R"(],"rows":{"at":)" << kRowsAt << R"(,"bytes":)" << sizeof(Row) << R"(,"count":)" << kRows << R"(,"fields":{)"
      << fields_of_rows() << R"(}},"groups":{"at":)" << kGroupsAt << R"(,"bytes":)" << kGroupBytes << R"(,"count":)"
      << kGroups << R"(,"fields":{)" << fields_of_groups() << R"(}},"doors":{"at":)" << kDoors << R"(,"bytes":)"
      << kDoorsRoom << "}}";
  return out.str();
}

}  // namespace switchml::live
