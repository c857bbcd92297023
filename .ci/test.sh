#!/usr/bin/env bash
# Set-up, every gtest, every pytest. The last line sums both: "N passed, M failed, K skipped".
# Usage: .ci/test.sh pip|debian [arguments for pytest]
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
run_gtests "$build" || true
# The models know nothing of PyTorch, and to the network all are alike; they take minutes: once is enough.
suites=(tests/python tests/vectors tests/switch_p4)
if [ "$torch" = pip ]; then suites+=(tests/model tests/netlab); fi
say "pytest (torch of $torch)"
"$python" -m pytest "${suites[@]}" -q -ra --junitxml="$results/pytest.xml" \
  --softswitch-target "$build/tests/vectors/softswitch_target" "$@" </dev/null || true
"$python" .ci/summary.py --ctest "$results" --pytest "$results/pytest.xml"
