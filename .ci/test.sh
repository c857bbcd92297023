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
say "pytest (torch of $torch)"
"$python" -m pytest tests/python tests/vectors tests/switch_p4 -q -ra --junitxml="$results/pytest.xml" \
  --softswitch-target "$build/tests/vectors/softswitch_target" "$@" </dev/null || true
"$python" .ci/summary.py --ctest "$results" --pytest "$results/pytest.xml"
