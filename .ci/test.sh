#!/usr/bin/env bash
# Set-up, the gtests, the pytests. The last line sums both: "N passed, M failed, K skipped".
# Usage: .ci/test.sh pip|debian|2.14 [--all] [arguments for pytest]; SWITCHML_GTESTS=REGEX chooses among the gtests.
#   --all  also what repeats in another way what the rest covers: slow pytests, the models; of the other PyTorches every gtest and pytest
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
clean_environment
cd "$root"
select_torch "${1:-pip}"
shift || true
all=()
if [ "${1:-}" = --all ]; then all=(--all) && shift; fi

# What knows nothing of PyTorch is the same machine code with another one.
scope=()
if [ "$torch" != pip ] && [ $(($# + ${#all[@]})) -eq 0 ] && [ -z "${SWITCHML_GTESTS:-}" ]; then scope=(backend); fi
begin=$SECONDS
.ci/setup.sh "$torch" "${scope[@]}"
built=$SECONDS
results=$build/results found=()
# took NAME BEGIN [END]: what is printed at the end.
took() { printf '%-36s %5d s\n' "$1" $((${3:-SECONDS} - $2)) >>"$results/seconds.txt"; }

rm -rf "$results"
mkdir -p "$results"
if [ ${#scope[@]} -eq 0 ]; then
  say "gtest"
  only=${SWITCHML_GTESTS:-} at_a_time=$((2 * $(nproc))) run_gtests "$build" || true  # makes the folder anew
  took "gtests" "$built"
  found+=(--ctest "$results")
fi
took "set-up and build" "$begin" "$built"
# [processes=N] run_pytest NAME ARGUMENTS...: results/NAME.xml. Most tests wait most of the time: more files at a time than processors,
# each in one process; 0: one after the other, in the process of pytest itself.
run_pytest() {
  local name=$1 begin=$SECONDS
  shift
  "$python" -m pytest -q -ra --numprocesses "${processes:-$((2 * $(nproc)))}" --dist loadfile --junitxml="$results/$name.xml" \
    "${all[@]}" "$@" </dev/null || true
  took "pytest: $name" "$begin"
}

# [processes=N] beside NAME ARGUMENTS...: run_pytest at the same time as what follows.
others=()
beside() {
  run_pytest "$@" &>"$results/$1.txt" &
  others+=("$!:$1")
}

# What forks no ranks, and may need gigabytes, which forked ranks would copy.
tools=(tests/benchmarks tests/switch_p4 tests/vectors tests/planner tests/setup
  --softswitch-target "$build/tests/vectors/softswitch_target")
if [ "$torch" = pip ]; then tools=(tests/rdma "${tools[@]}"); fi
if [ "$torch${all[*]}" = pip--all ]; then tools+=(tests/model); fi
say "pytest (torch of $torch)"
if [ $# -gt 0 ]; then
  if [ "$torch" = pip ]; then tools+=(tests/netlab); fi
  processes=0 run_pytest pytest tests/python "${tools[@]}" "$@"
elif [ "$torch" = pip ]; then
  # What runs a second time, with the ranks as a user's are on one host; the other PyTorches run all of it that way.
  in_memory=(asynchronous coalesced disagreements groups ieee parallelism reductions training)
  in_memory=("${in_memory[@]/%/.py}")
  # Networks of slow links wait most of the time.
  processes=2 beside netlab tests/netlab
  processes=0 beside tools "${tools[@]}"
  processes=1 beside memory "${in_memory[@]/#/tests/python/test_}" --transport auto
  processes=3 run_pytest pytest tests/python
elif [ ${#all[@]} -gt 0 ]; then
  run_pytest pytest tests/python --transport auto
else
  # Each collective, and what depends on how a PyTorch makes groups, raises errors, forks and ends.
  each=(asynchronous barriers coalesced failures fork group_services groups interpreter_end movements point_to_point reductions refusals
    torch_distributed_suite training)
  each=("${each[@]/%/.py}")
  # The planner with older packages than those of PyPI.
  if [ "$torch" = debian ]; then processes=0 beside planner tests/planner/test_planner_{command,exact,example}.py; fi
  run_pytest pytest "${each[@]/#/tests/python/test_}" --transport auto
fi
for each in "${others[@]}"; do
  wait "${each%%:*}" || true
  say "pytest, ${each#*:}, beside the others"
  cat "$results/${each#*:}.txt"
  found+=(--pytest "$results/${each#*:}.xml")
done
say "what took how long (netlab, tools, memory and planner run beside the others)"
cat "$results/seconds.txt"
"$python" .ci/summary.py "${found[@]}" --pytest "$results/pytest.xml"
