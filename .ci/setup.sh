#!/usr/bin/env bash
# Sets everything up: Debian packages, a virtual environment with PyTorch, the build, and `import switchml` in it.
# Usage: .ci/setup.sh pip|debian [packages|environment|build]   (the last step to do; all of them without)
# Quick when there is nothing to do; run it as often as you like.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
clean_environment
cd "$root"
select_torch "${1:-pip}"
last_step=${2:-build}

packages=(g++ cmake ninja-build ccache git make python3-venv python3-dev libgoogle-glog-dev libgtest-dev libgmock-dev
  libibverbs-dev pybind11-dev dataset-fashion-mnist iproute2 openssl spin nftables
  pkg-config libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc libyaml-cpp-dev prometheus-cpp-dev)
pip_requirements=()
case $torch in
  pip)
    # Exactly this version: it is the one that the module is developed against.
    pip_requirements=(torch==2.13.0 numpy pytest pytest-timeout matplotlib setuptools wheel expecttest
      grpcio protobuf)
    packages+=(clang-14 libbpf-dev bpftool)  # tests/netlab
    ;;
  debian)
    packages+=(libtorch-dev python3-torch python3-numpy python3-pytest python3-pytest-timeout python3-matplotlib
      python3-setuptools python3-wheel python3-pip python3-grpcio python3-protobuf)
    ;;
esac

make_environment() {
  local stamp=$venv/.made-for want
  want="$venv $(/usr/bin/python3 --version) ${pip_requirements[*]}"
  if [ "$(cat "$stamp" 2>/dev/null)" = "$want" ] && "$python" -c '' 2>/dev/null; then return; fi
  say "making the virtual environment ${venv#"$root"/}"
  rm -rf "$venv"
  if [ "$torch" = debian ]; then
    /usr/bin/python3 -m venv --system-site-packages --without-pip "$venv"
  else
    /usr/bin/python3 -m venv "$venv"
    "$python" -m pip install --quiet --disable-pip-version-check "${pip_requirements[@]}" </dev/null
  fi
  printf '%s\n' "$want" >"$stamp"
}

# The build stages the Python package beside its compiled module; a .pth file makes the environment look there first, then
# in the source folder for the modules outside of the package. Metadata like that of an installed package lets PyTorch find
# the entry points that load the backend by its name.
link_package() {
  local site metadata
  site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  metadata=$site/switchml-build.dist-info
  printf '%s\n' "$build/python" "$root/python" >"$site/switchml-build.pth"
  mkdir -p "$metadata"
  "$python" .ci/entry_points.py pyproject.toml "$metadata"
}

install_packages "${packages[@]}"
if [ "$last_step" = packages ]; then exit; fi
make_environment
if [ "$last_step" = environment ]; then exit; fi
configure_and_build "$build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSWITCHML_BUILD_TORCH=ON "-DPython3_EXECUTABLE=$python"
link_package
(cd / && "$python" -c 'import switchml, torch; print("== ready: switchml", switchml.__version__, "on torch", torch.__version__)')
