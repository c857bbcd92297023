#!/usr/bin/env bash
# Set-up, every gtest, every pytest. The last line sums both: "N passed, M failed, K skipped".
# Usage: .ci/test.sh pip|debian|2.14 [arguments for pytest]; SWITCHML_GTESTS=REGEX chooses among the gtests.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
clean_environment
cd "$root"
select_torch "${1:-pip}"
shift || true

begin=$SECONDS
.ci/setup.sh "$torch"
built=$SECONDS
results=$build/results
# took NAME BEGIN [END]: what is printed at the end.
took() { printf '%-36s %5d s\n' "$1" $((${3:-SECONDS} - $2)) >>"$results/seconds.txt"; }

say "gtest"
only=${SWITCHML_GTESTS:-} at_a_time=$((2 * $(nproc))) run_gtests "$build" || true  # makes the folder of results anew
took "set-up and build" "$begin" "$built"
took "gtests" "$built"
# [processes=N] run_pytest NAME ARGUMENTS...: results/NAME.xml. Most tests wait most of the time: more files at a time than one, each
# in one process; 0: one after the other, in the process of pytest itself.
run_pytest() {
  local name=$1 begin=$SECONDS
  shift
  "$python" -m pytest -q -ra --numprocesses "${processes:-$(nproc)}" --dist loadfile --junitxml="$results/$name.xml" "$@" \
    </dev/null || true
  took "pytest: $name" "$begin"
}

# What runs a second time, with the ranks as a user's are on one host; the other PyTorch runs all of it that way.
in_memory=(asynchronous.py barriers.py coalesced.py disagreements.py groups.py ieee.py parallelism.py reductions.py)
in_memory+=(training.py)

# [idly=yes] [processes=N] beside NAME ARGUMENTS...: run_pytest at the same time as what follows.
others=()
beside() {
  (if [ -n "${idly:-}" ]; then renice -n 19 "$BASHPID" >/dev/null; fi && run_pytest "$@") &>"$results/$1.txt" &
  others+=("$!:$1")
}

# What forks no ranks, and may need gigabytes, which forked ranks would copy.
tools=(tests/benchmarks tests/switch_p4 tests/vectors tests/planner tests/setup
  --softswitch-target "$build/tests/vectors/softswitch_target")
found=(--pytest "$results/pytest.xml")
say "pytest (torch of $torch)"
if [ $# -gt 0 ]; then
  if [ "$torch" = pip ]; then tools+=(tests/rdma tests/model tests/netlab); fi
  processes=0 run_pytest pytest tests/python "${tools[@]}" "$@"
elif [ "$torch" = pip ]; then
  # Networks of slow links wait most of the time. Searching models is computing alone: for what processors have left.
  processes=2 beside netlab tests/netlab
  processes=0 beside tools tests/rdma "${tools[@]}"
  idly=yes processes=0 beside models tests/model
  run_pytest pytest tests/python
  say "pytest, ranks that share memory"
  processes=$((2 * $(nproc))) run_pytest memory "${in_memory[@]/#/tests/python/test_}" --transport auto
  found+=(--pytest "$results/memory.xml")
else
  # The models and the tools know nothing of PyTorch, and to networks and cards all are alike: once is enough. So it is for these:
  # their subject lies below what knows PyTorch, and they choose the ranks' way themselves, or run in memory with PyPI's, too.
  alike=(--ignore=tests/python/test_{controller,exact,floods,ieee,lab,memory,messages,opening,option_tables,replanning,suspended,ways}.py)
  if [ "$torch" = debian ]; then processes=0 beside planner tests/planner; fi  # older packages than those of PyPI
  processes=$((2 * $(nproc))) run_pytest pytest tests/python --transport auto "${alike[@]}"
fi
for each in "${others[@]}"; do
  wait "${each%%:*}" || true
  say "pytest, ${each#*:}, beside the others"
  cat "$results/${each#*:}.txt"
  found+=(--pytest "$results/${each#*:}.xml")
done
say "what took how long (netlab, tools, models and planner run beside the others)"
cat "$results/seconds.txt"
"$python" .ci/summary.py --ctest "$results" "${found[@]}"
