#include "base/command_line.h"

namespace switchml {

Status scan_options(int argc, char* const* argv, const option* table,
                    const std::function<Status(int index, const std::string& value)>& take) {
  optind = 0;  // glibc: start afresh
  opterr = 0;  // the messages are ours
  while (true) {
    int index = -1;
    const int choice = getopt_long(argc, argv, "+:h", table, &index);
    if (choice == -1) break;
    const std::string written = argv[optind - 1];
    if (choice == '?') return {Code::kInvalidArgument, "there is no option \"" + written + "\": see --help"};
    if (choice == ':') return {Code::kInvalidArgument, written + " needs a value: see --help"};
    if (Status status = take(index, optarg == nullptr ? "" : optarg); !status.ok()) return status;
  }
  if (optind == argc) return {};
  return {Code::kInvalidArgument,
          std::string("\"") + argv[optind] + "\" is no option: all arguments begin with --, see --help"};
}

}  // namespace switchml
