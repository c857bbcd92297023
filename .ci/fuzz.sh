#!/usr/bin/env bash
# Every fuzzer of tests/fuzz for FUZZ_SECONDS (60) each, beginning with its corpus, as many at a time as there are cores.
# An input that crashes, leaks, takes too long or too much memory is left in build-asan/findings/, and its path printed.
# Usage: .ci/fuzz.sh [NAME...]   (of tests/fuzz/NAME_fuzz.cc; all of them without)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
clean_environment
cd "$root"
seconds=${FUZZ_SECONDS:-60}
[[ $seconds =~ ^[1-9][0-9]{0,6}$ ]] || die "FUZZ_SECONDS=$seconds: allowed are 1 to 9999999"
build_asan fuzzers
build=$root/build-asan

mapfile -t names < <(find tests/fuzz -name '*_fuzz.cc' -printf '%f\n' | sed 's/_fuzz\.cc$//' | sort)
for name in "$@"; do
  [ -f "tests/fuzz/${name}_fuzz.cc" ] || die "no fuzzer \"$name\"; there are: ${names[*]}"
done
if [ $# -gt 0 ]; then names=("$@"); fi

# What libraries without these checks have built must not be measured by them (container overflow).
export ASAN_OPTIONS=detect_leaks=1:detect_container_overflow=0:detect_stack_use_after_return=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
# Inputs become files, thousands a second.
if [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
findings=$build/findings
mkdir -p "$findings" "$build/logs"

# New inputs that it keeps go to build-asan/new/NAME, never into the checkout.
run_one() {
  local name=$1 new=$build/new/$1
  mkdir -p "$new"
  timeout --kill-after=10 $((seconds + 120)) "$build/tests/fuzz/fuzz_$name" -max_total_time="$seconds" -timeout=10 \
    -rss_limit_mb=2048 -max_len=4096 -print_final_stats=1 -artifact_prefix="$findings/$name-" "$new" "tests/fuzz/corpus/$name" \
    >"$build/logs/$name" 2>&1 </dev/null
}

failed=0
report() {
  local name=$1 status=$2
  if [ "$status" -eq 0 ]; then
    printf '%-16s %s\n' "$name" "$(sed -n 's/^stat::number_of_executed_units: *\([0-9]*\)/\1 inputs/p' "$build/logs/$name")"
    return
  fi
  failed=$((failed + 1))
  printf '%-16s FAILED (status %d), %s:\n' "$name" "$status" "$build/logs/$name"
  tail -n 40 "$build/logs/$name"
}

at_a_time=$(jobs_here)
say "fuzzing for $seconds s each: ${names[*]}"
declare -A running=()
for name in "${names[@]}" ""; do
  while [ ${#running[@]} -ge "$at_a_time" ] || { [ -z "$name" ] && [ ${#running[@]} -gt 0 ]; }; do
    status=0
    wait -n -p done "${!running[@]}" || status=$?
    report "${running[$done]}" "$status"
    unset "running[$done]"
  done
  if [ -n "$name" ]; then
    run_one "$name" &
    running[$!]=$name
  fi
done
echo "$((${#names[@]} - failed)) passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
