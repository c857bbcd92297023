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
# [processes=N] run_pytest NAME ARGUMENTS...: results/NAME.xml. Tests wait most of the time: more files at a time than there are
# processors, each file in one process, in the order of the arguments. Debian 12's xdist has no other order, and no option for it.
in_order=()
if [ "$torch" != debian ]; then in_order=(--no-loadscope-reorder); fi
run_pytest() {
  local name=$1 begin=$SECONDS
  shift
  "$python" -m pytest -q -ra --numprocesses "${processes:-$(($(nproc) + 1))}" --dist loadfile "${in_order[@]}" \
    --junitxml="$results/$name.xml" "$@" </dev/null || true
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

# The models and the benchmarks' tools know nothing of PyTorch, and to networks and cards all are alike: once is enough.
suites=(tests/benchmarks tests/python tests/switch_p4 tests/vectors tests/planner tests/setup) found=(--pytest "$results/pytest.xml") memory=
if [ "$torch" != pip ] && [ $# -eq 0 ]; then
  # How sessions open and what a controller does is the same for every PyTorch.
  suites=(tests/python --transport auto --ignore-glob '*/test_controller.py' --ignore-glob '*/test_opening.py')
  if [ "$torch" = debian ]; then suites+=(tests/planner); fi  # older packages than those of PyPI
elif [ "$torch" = pip ] && [ $# -eq 0 ]; then
  # Networks of slow links wait most of the time. Searching models is computing alone: for what processors have left.
  processes=2 beside netlab tests/netlab
  idly=yes processes=1 beside models tests/model
  memory=yes
  suites=(tests/rdma "${suites[@]}")  # one file that takes minutes
elif [ "$torch" = pip ]; then
  suites+=(tests/rdma tests/model tests/netlab)
fi
say "pytest (torch of $torch)"
case " ${suites[*]} " in *" tests/vectors "*) suites+=(--softswitch-target "$build/tests/vectors/softswitch_target") ;; esac
run_pytest pytest "${suites[@]}" "$@"
if [ -n "$memory" ]; then
  say "pytest, ranks that share memory"
  run_pytest memory "${in_memory[@]/#/tests/python/test_}" --transport auto
  found+=(--pytest "$results/memory.xml")
fi
for each in "${others[@]}"; do
  wait "${each%%:*}" || true
  say "pytest, ${each#*:}, beside the others"
  cat "$results/${each#*:}.txt"
  found+=(--pytest "$results/${each#*:}.xml")
done
say "what took how long (netlab and models run beside the others)"
cat "$results/seconds.txt"
"$python" .ci/summary.py --ctest "$results" "${found[@]}"
