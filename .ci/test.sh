#!/usr/bin/env bash
# Set-up, every gtest, every pytest. The last line sums both: "N passed, M failed, K skipped".
# Usage: .ci/test.sh pip|debian [arguments for pytest]; SWITCHML_GTESTS=REGEX chooses among the gtests.
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

# The models know nothing of PyTorch, and to the network all are alike; they take minutes: once is enough.
suites=(tests/python tests/vectors tests/switch_p4) found=(--pytest "$results/pytest.xml") models=
if [ "$torch" = pip ] && [ $# -eq 0 ]; then
  # Searching the models is computing alone, and much of the rest is waiting.
  (renice -n 19 "$BASHPID" >/dev/null && run_pytest models tests/model) &>"$results/models.txt" &
  models=$! found+=(--pytest "$results/models.xml")
  suites+=(tests/netlab)
elif [ "$torch" = pip ]; then
  suites+=(tests/model tests/netlab)
fi
say "pytest (torch of $torch)"
run_pytest pytest "${suites[@]}" --softswitch-target "$build/tests/vectors/softswitch_target" "$@"
if [ -n "$models" ]; then
  wait "$models" || true
  say "pytest, the models"
  cat "$results/models.txt"
fi
"$python" .ci/summary.py --ctest "$results" "${found[@]}"
