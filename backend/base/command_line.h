// What our programs' command lines have in common: long options, and -h.
#pragma once

#include <getopt.h>

#include <functional>
#include <string>

#include "base/status.h"

namespace switchml {

/// Hands every option to `take`, in order: its index in `table` (-1: -h) and its value (empty: it has none). Ends with
/// the first error of `take`, or kInvalidArgument for an option that is not in the table, one without the value that it
/// needs, and arguments that are no options. `table` ends with zeros. Not thread-safe (getopt).
Status scan_options(int argc, char* const* argv, const option* table,
                    const std::function<Status(int index, const std::string& value)>& take);

}  // namespace switchml
