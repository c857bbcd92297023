# Shared by the scripts of this folder; sourced, never run. Bash, with `set -euo pipefail` set by the caller.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '== %s\n' "$*"; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# A user's conda or pyenv must not decide which compiler, CMake or Python is used: Debian's go together.
clean_environment() {
  export PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
  unset CONDA_PREFIX CMAKE_PREFIX_PATH CMAKE_GENERATOR CMAKE_ARGS PYTHONPATH PYTHONHOME VIRTUAL_ENV PYENV_VERSION
  # What one build folder has compiled is found by the others: paths count from the checkout, wherever that is.
  export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=true
  unset CC CXX CFLAGS CXXFLAGS CPPFLAGS LDFLAGS CPATH CPLUS_INCLUDE_PATH LIBRARY_PATH LD_LIBRARY_PATH MAKEFLAGS MAKELEVEL
}

# Which folders belong to a choice of TORCH.
select_torch() {
  case "$1" in
    pip) venv=$root/.venv build=$root/build ;;
    debian) venv=$root/.venv-debian build=$root/build-debian ;;
    2.14) venv=$root/.venv-2.14 build=$root/build-2.14 ;;
    clients) venv=$root/.venv-clients build=$root/build ;;
    *) die "TORCH=$1: allowed are pip (torch 2.13.0 in .venv), debian (the Debian packages' 1.13.1 in .venv-debian) and 2.14
  (torch 2.14.1 in .venv-2.14)" ;;
  esac
  torch=$1
  python=$venv/bin/python
}

# missing_packages NAME...: those that are not installed, one a line.
missing_packages() {
  local name
  for name in "$@"; do
    dpkg-query -W -f='${Status}\n' "$name" 2>/dev/null | grep -q '^install ok installed' || echo "$name"
  done
}

# What an administrator is asked to do.
apt_line() { echo "apt-get install --no-install-recommends $*"; }

# install_packages NAME...: installs the Debian packages that are missing; asks for nothing and touches no others.
install_packages() {
  command -v dpkg-query >/dev/null || die "this set-up needs Debian or Ubuntu (no dpkg-query found); install by hand: $*"
  local missing=() as_root=()
  mapfile -t missing < <(missing_packages "$@")
  if [ ${#missing[@]} -eq 0 ]; then return; fi
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "${#missing[@]} Debian packages are missing, and there is no sudo. Ask the administrator for:
  $(apt_line "${missing[@]}")"
    as_root=(sudo DEBIAN_FRONTEND=noninteractive)
  fi
  say "installing Debian packages: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  # Old or absent package lists make the simulation, or the download, fail: then, and only then, refresh them.
  local install=("${as_root[@]}" apt-get install -y -q --no-install-recommends -o Dpkg::Use-Pty=0 "${missing[@]}")
  if ! apt-get install -s -q --no-install-recommends "${missing[@]}" >/dev/null 2>&1 || ! "${install[@]}" </dev/null; then
    say "refreshing the package lists (apt-get update)"
    { "${as_root[@]}" apt-get update -q </dev/null && "${install[@]}" </dev/null; } ||
      die "these Debian packages could not be installed; who may install them needs this line:
  $(apt_line "${missing[@]}")"
  fi
}

# install_optional WHAT NAME...: as install_packages, but who cannot install them, or whose Debian has none of them, does
# without WHAT.
install_optional() {
  local what=$1 missing=()
  shift
  mapfile -t missing < <(missing_packages "$@")
  if [ ${#missing[@]} -eq 0 ]; then return; fi
  (install_packages "${missing[@]}") || say "going on without $what: ${missing[*]} cannot be installed here"
}

# Configures a build folder when its settings changed, then builds it: configure_and_build FOLDER [-D...]... [-- TARGET...]
configure_and_build() {
  local folder=$1 settings=() targets=() stamp
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do settings+=("$1") && shift; done
  if [ $# -gt 0 ]; then shift && targets=("$@"); fi
  stamp=$folder/.configured-with
  if [ "$(cat "$stamp" 2>/dev/null)" != "${settings[*]}" ] || [ ! -f "$folder/build.ninja" ]; then
    say "configuring ${folder#"$root"/}"
    rm -f "$folder/CMakeCache.txt"
    cmake -S "$root" -B "$folder" -G Ninja -DCMAKE_CXX_COMPILER=/usr/bin/g++ "${settings[@]}"
    printf '%s\n' "${settings[*]}" >"$stamp"
  fi
  say "building ${folder#"$root"/}"
  ninja -C "$folder" -j "$(jobs_here)" "${targets[@]}"
}

# What the address and the undefined-behaviour sanitizer watch, in build-asan/, and libFuzzer with them: one build for the gtests and
# the fuzzers. Clang, which takes half of the time for it, and libFuzzer is its: build_asan packages, or build_asan [TARGET...]
build_asan() {
  install_packages clang-14 libclang-rt-14-dev cmake ninja-build ccache python3 libgoogle-glog-dev libxxhash-dev libssl-dev libgtest-dev libgmock-dev \
    libibverbs-dev pkg-config libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc libyaml-cpp-dev
  if [ "${1:-}" = packages ]; then return; fi
  configure_and_build "$root/build-asan" -DCMAKE_CXX_COMPILER=/usr/bin/clang++-14 -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DSWITCHML_SANITIZE=address,undefined -DSWITCHML_BUILD_FUZZERS=ON -DSWITCHML_CONTROLLER=ON -DSWITCHML_BUILD_BENCHMARKS=OFF \
    -DPython3_EXECUTABLE=/usr/bin/python3 -- "$@"
}

# As many compilers as cores, but at most one per 1.5 GiB of memory: a file that includes torch takes that much.
jobs_here() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/MemAvailable/ {print int($2 / 1572864)}' /proc/meminfo)
  if [ "$memory" -lt 1 ]; then memory=1; fi
  if [ "$memory" -lt "$cores" ]; then echo "$memory"; else echo "$cores"; fi
}

# Runs the tests that CMake registered in a build folder, one at a time, and leaves results/ctest.xml there plus, for each
# gtest executable, results/NAME.xml with its cases (.ci/summary.py counts them). Before ctest comes the command PREFIX, and
# executables whose name ONLY does not match are left out. What tests that pass have printed is kept in full, since
# summary.py shows some of it:
# [only=REGEX] [at_a_time=N] run_gtests FOLDER [PREFIX...]
run_gtests() {
  local folder=$1
  shift
  rm -rf "$folder/results"
  mkdir -p "$folder/results"
  GTEST_OUTPUT="xml:$folder/results/" "$@" ctest --test-dir "$folder" --output-on-failure --no-tests=error \
    --test-output-size-passed 1000000 --tests-regex "${only:-.}" --parallel "${at_a_time:-1}" \
    --output-junit "$folder/results/ctest.xml" </dev/null
}
