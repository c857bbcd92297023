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

/// Stores every option's value, in order; -h is --help, a row that every table has. Returns the names that were given.
/// kInvalidArgument, with a message that names it: an option that is not in the table, a missing value or one that is
/// not allowed, an argument that is no option. Not thread-safe (getopt).
Result<Given> parse_options(int argc, char* const* argv, const std::vector<Option>& table);

/// A paragraph for each option, in columns: name, effect, allowed values, default.
std::string options_text(const std::vector<Option>& table);

/// Parses the command line of a main(). Prints `usage` and the options for --help, which is no row of `table`, or the
/// mistake, and returns the exit status, 0 or 2; nullopt: go on. `check` finds mistakes in how options combine.
/// Not thread-safe.
std::optional<int> answer_command_line(int argc, char* const* argv, const std::string& usage, std::vector<Option> table,
                                       const std::function<Status(const Given&)>& check = {});

}  // namespace switchml
