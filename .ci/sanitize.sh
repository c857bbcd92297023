#!/usr/bin/env bash
# The gtests under address + undefined-behaviour sanitizers (build-asan/, where the fuzzers are too), and those of
# folders with threads under the thread sanitizer (build-tsan/).
# Usage: .ci/sanitize.sh [packages|build]   (the last step to do; all of them without)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
clean_environment
cd "$root"
last_step=${1:-test}
build_asan packages
install_packages g++ cmake ninja-build ccache python3 libgoogle-glog-dev libxxhash-dev libssl-dev libgtest-dev libgmock-dev libibverbs-dev python3-xxhash util-linux
if [ "$last_step" = packages ]; then exit; fi

export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=$root/.ci/tsan.supp

build_asan
configure_and_build "$root/build-tsan" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSWITCHML_SANITIZE=thread -DSWITCHML_BUILD_TORCH=OFF \
  -DSWITCHML_BUILD_BENCHMARKS=OFF -DPython3_EXECUTABLE=/usr/bin/python3
if [ "$last_step" = build ]; then exit; fi
# Most of them wait; no time is measured here.
at_a_time=$((2 * $(nproc)))
say "gtest, address and undefined behaviour"
run_gtests "$root/build-asan" || true
say "gtest, threads"
# Without address randomisation: where the kernel uses many random bits, the thread sanitizer finds no place for its tables.
fixed=()
if setarch -R true 2>/dev/null; then fixed=(setarch -R); fi
run_gtests "$root/build-tsan" "${fixed[@]}" || true
python3 .ci/summary.py --ctest build-asan/results --ctest build-tsan/results
