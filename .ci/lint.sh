#!/usr/bin/env bash
# Formatting, static analysis of the torch-free core, direction of includes, Python syntax. Reports all before it fails.
# Usage: .ci/lint.sh [packages]   (the last step to do; all of them without)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
clean_environment
cd "$root"
install_packages g++ cmake ninja-build ccache git python3 clang-14 clang-format-14 clang-tidy-14 libgoogle-glog-dev libxxhash-dev \
  libgtest-dev libgmock-dev libibverbs-dev pkg-config libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc \
  libyaml-cpp-dev prometheus-cpp-dev
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
# judge of those.
tidy() {
  configure_and_build "$root/build-lint" -DSWITCHML_BUILD_TESTS=OFF -DSWITCHML_BUILD_BENCHMARKS=OFF \
    -DPython3_EXECUTABLE=/usr/bin/python3 -- switchml_layout switchml_api_code >/dev/null || return 1
  sed -i 's/ -fno-ipa-modref//' build-lint/compile_commands.json  # which clang-tidy does not know
  find backend -name '*.cc' -not -path 'backend/c10d/*' -not -name '*_neon.cc' -print0 |
    xargs -0 -r -n 4 -P "$(nproc)" clang-tidy-14 -p build-lint --quiet --extra-arg=-Wno-unknown-warning-option 2> >(grep -v 'warnings generated\|^$' >&2 || true)
}

# Not compileall: it would leave __pycache__ folders behind.
python_syntax() {
  local files
  mapfile -d '' files < <(find .ci backend benchmarks examples python tests setup.py -name '*.py' -print0)
  python3 -c 'import pathlib, sys
for name in sys.argv[1:]:
    compile(pathlib.Path(name).read_text(), name, "exec", dont_inherit=True)
print(len(sys.argv) - 1, "files")' "${files[@]}"
}

# pytest imports two files of one name as one module, and then runs neither folder.
test_names() {
  local twice
  twice=$(find tests -name 'test_*.py' -printf '%f\n' | sort | uniq -d)
  if [ -n "$twice" ]; then echo "two test files of one name: $twice" >&2; return 1; fi
}

check "clang-format" formatting
check "layers" python3 tests/check_layers.py
check "layers, self-test" python3 tests/check_layers.py --self-test
check "Python syntax" python_syntax
check "names of test files" test_names
check "clang-tidy" tidy
if [ ${#failed[@]} -gt 0 ]; then die "lint: $(printf '%s; ' "${failed[@]}")"; fi
say "lint: all clean"
