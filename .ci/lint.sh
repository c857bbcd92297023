#!/usr/bin/env bash
# Formatting, static analysis of the torch-free core, direction of includes, Python, documentation. Reports all before it fails.
# Usage: .ci/lint.sh [packages | tools | fast | deep]   (only what it installs; all but clang-tidy; clang-tidy in depth)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
clean_environment
cd "$root"
install_packages g++ cmake ninja-build ccache git python3 python3-venv clang-14 clang-format-14 clang-tidy-14 libgoogle-glog-dev libxxhash-dev libssl-dev \
  libgtest-dev libgmock-dev libibverbs-dev pkg-config libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc \
  libyaml-cpp-dev
if [ "${1:-}" = packages ]; then exit; fi

failed=()
check() {
  local name=$1
  shift
  say "$name"
  "$@" || failed+=("$name")
}

cpp_files() { find backend tests benchmarks \( -name '*.h' -o -name '*.cc' \) -print0; }
formatting() { cpp_files | xargs -0 -r clang-format-14 --dry-run -Werror; }

# The headers are analysed through the files that include them. c10d would need torch's headers, and clang-tidy is no
# judge of those. Paths through a function are followed for 20,000 states, which takes half of the time; "deep" follows
# them for clang's own 225,000.
tidy() {
  local shallow=(--extra-arg={-Xclang,-analyzer-config,-Xclang,max-nodes=20000})
  if [ "$1" = deep ]; then shallow=(); fi
  configure_and_build "$root/build-lint" -DSWITCHML_BUILD_TESTS=OFF -DSWITCHML_BUILD_BENCHMARKS=OFF \
    -DPython3_EXECUTABLE=/usr/bin/python3 -- switchml_layout switchml_api_code >/dev/null || return 1
  sed -i 's/ -fno-ipa-modref//' build-lint/compile_commands.json  # which clang-tidy does not know
  find backend -name '*.cc' -not -path 'backend/c10d/*' -not -name '*_neon.cc' -print0 |
    xargs -0 -r -n 4 -P "$(nproc)" clang-tidy-14 -p build-lint --quiet --extra-arg=-Wno-unknown-warning-option "${shallow[@]}" \
      2> >(grep -v 'warnings generated\|^$' >&2 || true)
}

# Debian 12 has none of these, or an old one.
tools=.venv-lint/bin
tool_versions=(ruff==0.17.6 mypy==2.4.1 mkdocs-material==9.8.2)
python_tools() {
  local stamp=.venv-lint/.made-for
  if [ "$(cat "$stamp" 2>/dev/null)" = "${tool_versions[*]}" ]; then return; fi
  rm -rf .venv-lint
  python3 -m venv .venv-lint && "$tools/pip" install --quiet "${tool_versions[@]}" && printf '%s\n' "${tool_versions[*]}" >"$stamp"
}
markdown() { python3 .ci/check_docs.py README.md backend/*.md docs/*.md examples/*.md .github/*.md benchmarks/results/*.md tests/*/*.md; }
# mkdocs-material advertises on standard error.
site() { NO_MKDOCS_2_WARNING=1 "$tools/mkdocs" build --quiet --config-file .ci/site.yml; }

# pytest imports two files of one name as one module, and then runs neither folder.
test_names() {
  local twice
  twice=$(find tests -name 'test_*.py' -printf '%f\n' | sort | uniq -d)
  if [ -n "$twice" ]; then echo "two test files of one name: $twice" >&2; return 1; fi
}

case "${1:-}" in
  '' | fast | deep) ;;
  tools) python_tools; exit ;;
  *) die "lint.sh: $1; allowed: packages, tools, fast, deep" ;;
esac

check "clang-format" formatting
check "layers" python3 tests/check_layers.py
check "layers, self-test" python3 tests/check_layers.py --self-test
check "comments" python3 tests/check_comments.py
check "comments, self-test" python3 tests/check_comments.py --self-test
check "requirements" python3 tests/check_requirements.py
check "requirements, self-test" python3 tests/check_requirements.py --self-test
check "tools for Python and Markdown" python_tools
check "ruff" "$tools/ruff" check --quiet .
check "ruff format" "$tools/ruff" format --quiet --check --diff .
check "mypy" "$tools/mypy"
check "documentation" markdown
check "documentation, self-test" python3 .ci/check_docs.py --self-test
check "documentation, the site" site
check "names of test files" test_names
[ "${1:-}" = fast ] || check "clang-tidy" tidy "${1:-}"
if [ ${#failed[@]} -gt 0 ]; then die "lint: $(printf '%s; ' "${failed[@]}")"; fi
say "lint: all clean"
