#include "base/command_line.h"

#include <getopt.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

namespace switchml {

namespace {

constexpr size_t kHelpColumns = 110;

std::string head_of(const Option& option) {
  return "  --" + option.name + (option.value.placeholder.empty() ? "" : " " + option.value.placeholder);
}

std::string about(const Option& option) {
  const OptionValue& value = option.value;
  const std::string default_text = option.default_text.empty() && value.print ? value.print() : option.default_text;
  return option.help + (value.plain ? "" : ": " + value.allowed) +
         (default_text.empty() ? "" : " (default " + default_text + ")");
}

std::vector<::option> for_getopt(const std::vector<Option>& table) {
  std::vector<::option> rows(table.size() + 1);  // the last one ends them
  for (size_t i = 0; i < table.size(); ++i) {
    rows[i] = {table[i].name.c_str(), table[i].value.placeholder.empty() ? no_argument : required_argument, nullptr, 0};
  }
  return rows;
}

// The error for the word at which getopt stopped. In "-xy" it stops at the first letter, still within the word.
Status not_an_option(const std::string& written, const std::vector<Option>& table) {
  if (written.compare(0, 2, "--") != 0 && optopt != 0) {
    return {Code::kInvalidArgument,
            std::string("there is no option \"-") + static_cast<char>(optopt) + "\": see --help"};
  }
  const std::string name = written.substr(0, written.find('='));
  const auto has_name = [&name](const Option& each) { return "--" + each.name == name; };
  if (std::any_of(table.begin(), table.end(), has_name)) {
    return {Code::kInvalidArgument, name + " takes no value: see --help"};
  }
  return {Code::kInvalidArgument, "there is no option \"" + written + "\": see --help"};
}

}  // namespace

Result<Given> parse_options(int argc, char* const* argv, const std::vector<Option>& table) {
  const std::vector<::option> rows = for_getopt(table);
  Given given;
  optind = 0;  // Makes glibc start afresh.
  opterr = 0;  // The messages below replace getopt's.
  while (true) {
    int index = 0;
    const int choice = getopt_long(argc, argv, "+:h", rows.data(), &index);
    if (choice == -1) break;
    const std::string written = argv[optind - 1];
    if (choice == '?') return not_an_option(written, table);
    if (choice == ':') return Status(Code::kInvalidArgument, written + " needs a value: see --help");
    const auto is_help = [](const Option& each) { return each.name == "help"; };
    const auto found = choice == 'h' ? std::find_if(table.begin(), table.end(), is_help) : table.begin() + index;
    const std::string value = optarg == nullptr ? "" : optarg;
    if (!found->value.take(value)) return not_allowed("--" + found->name, value, found->value.allowed);
    given.insert(found->name);
  }
  if (optind == argc) return given;
  return Status(Code::kInvalidArgument,
                std::string("\"") + argv[optind] + "\" is no option: all arguments begin with --, see --help");
}

std::string options_text(const std::vector<Option>& table) {
  size_t indent = 0;
  for (const Option& each : table) indent = std::max(indent, head_of(each).size() + 2);
  std::string text;
  for (const Option& each : table) {
    std::string line = head_of(each);
    line.resize(indent - 1, ' ');
    std::istringstream words(about(each));
    for (std::string word; words >> word; line += " " + word) {
      if (line.size() + 1 + word.size() <= kHelpColumns) continue;
      text += line + "\n";
      line.assign(indent - 1, ' ');
    }
    text += line + "\n";
  }
  return text;
}

std::optional<int> answer_command_line(int argc, char* const* argv, const std::string& usage, std::vector<Option> table,
                                       const std::function<Status(const Given&)>& check) {
  bool help = false;
  table.push_back({"help", value::flag(&help), "print this and leave", ""});
  const auto given = parse_options(argc, argv, table);
  if (given.ok() && help) {
    std::printf("%s%s", usage.c_str(), options_text(table).c_str());
    return 0;
  }
  const Status status = given.ok() && check ? check(given.value()) : given.status();
  if (status.ok()) return std::nullopt;
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, status.message().c_str());
  return 2;
}

}  // namespace switchml
