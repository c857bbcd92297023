#!/usr/bin/env bash
# Set-up, every gtest, every pytest. The last line sums both: "N passed, M failed, K skipped".
# Usage: .ci/test.sh pip|debian|2.14 [arguments for pytest]; SWITCHML_GTESTS=REGEX chooses among the gtests.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
clean_environment
cd "$root"
select_torch "${1:-pip}"
shift || true

.ci/setup.sh "$torch"
results=$build/results
rm -rf "$results"
mkdir -p "$results"

say "gtest"
only=${SWITCHML_GTESTS:-} run_gtests "$build" || true
# run_pytest NAME ARGUMENTS...: results/NAME.xml
run_pytest() {
  local name=$1
  shift
  "$python" -m pytest -q -ra --junitxml="$results/$name.xml" "$@" </dev/null || true
}

# What runs a second time, with the ranks as a user's are on one host; the other PyTorch runs all of it that way.
in_memory=(asynchronous.py barriers.py coalesced.py disagreements.py groups.py ieee.py parallelism.py reductions.py)
in_memory+=(training.py)

# The models and the benchmarks' tools know nothing of PyTorch, and to the network all are alike: once is enough.
suites=(tests/python tests/vectors tests/switch_p4 tests/benchmarks tests/setup) found=(--pytest "$results/pytest.xml") models= memory=
if [ "$torch" != pip ] && [ $# -eq 0 ]; then
  # How sessions open and what a controller does is the same for every PyTorch.
  suites=(tests/python --transport auto --ignore-glob '*/test_controller.py' --ignore-glob '*/test_opening.py')
elif [ "$torch" = pip ] && [ $# -eq 0 ]; then
  # Searching the models is computing alone, and much of the rest is waiting.
  (renice -n 19 "$BASHPID" >/dev/null && run_pytest models tests/model) &>"$results/models.txt" &
  models=$! found+=(--pytest "$results/models.xml") memory=yes
  suites+=(tests/netlab)
elif [ "$torch" = pip ]; then
  suites+=(tests/model tests/netlab)
fi
say "pytest (torch of $torch)"
case " ${suites[*]} " in *" tests/vectors "*) suites+=(--softswitch-target "$build/tests/vectors/softswitch_target") ;; esac
run_pytest pytest "${suites[@]}" "$@"
if [ -n "$memory" ]; then
  say "pytest, ranks that share memory"
  run_pytest memory "${in_memory[@]/#/tests/python/test_}" --transport auto
  found+=(--pytest "$results/memory.xml")
fi
if [ -n "$models" ]; then
  wait "$models" || true
  say "pytest, the models"
  cat "$results/models.txt"
fi
"$python" .ci/summary.py --ctest "$results" "${found[@]}"
