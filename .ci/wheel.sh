#!/usr/bin/env bash
# A wheel for the chosen PyTorch, in dist/ or FOLDER. It carries what it needs beside glibc, libstdc++ and PyTorch, and says in
# its name from which glibc on it works. Debian's PyTorch comes with Debian's libraries, which two copies of would disturb.
# Usage: .ci/wheel.sh pip|debian|2.14 [FOLDER]; SWITCHML_BUILD_DIR as for setup.py
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
clean_environment
select_torch "${1:-pip}"
to=${2:-$root/dist}

made=$(mktemp -d "$root/build-wheel-XXXXXX")
trap 'rm -rf "$made"' EXIT
"$python" -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir "$made" "$root"
if [ "$torch" = debian ]; then
  mkdir -p "$to" && mv "$made"/*.whl "$to"
else
  # The libraries that PyTorch's own wheel has.
  excluded=()
  for library in "$("$python" -c 'import pathlib, torch; print(pathlib.Path(torch.__file__).parent / "lib")')"/*.so*; do
    excluded+=(--exclude "$(basename "$library")")
  done
  PATH=$venv/bin:$PATH "$python" -m auditwheel repair "${excluded[@]}" --wheel-dir "$to" "$made"/*.whl &>"$made/log" ||
    die "auditwheel: $(cat "$made/log")"
fi
