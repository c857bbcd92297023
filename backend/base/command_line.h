// Command lines from tables of options: `--NAME VALUE`, `--NAME=VALUE`, flags, and -h.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/option.h"

namespace switchml {

/// Names of options.
using Given = std::set<std::string>;

/// Gives every option's value to its place, in order; -h is --help, a row that every table has. Returns which there
/// were. kInvalidArgument, with a message that names it: an option that is not in the table, a value that it needs or
/// that is not allowed, an argument that is no option. Not thread-safe (getopt).
Result<Given> parse_options(int argc, char* const* argv, const std::vector<Option>& table);

/// A paragraph for each option, in columns: name, what it does, what is allowed, and what holds without it.
std::string options_text(const std::vector<Option>& table);

/// For a main() that leaves at once after --help, which is no row of `table`, and after mistakes. Prints `usage` and
/// the options, or what is wrong, and returns the status to leave with, 0 or 2; nullopt: go on. `check` finds mistakes
/// that no option has alone. Not thread-safe.
std::optional<int> answer_command_line(int argc, char* const* argv, const std::string& usage, std::vector<Option> table,
                                       const std::function<Status(const Given&)>& check = {});

}  // namespace switchml
