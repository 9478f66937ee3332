#!/bin/bash
# Runs a command in a copy of this checkout on Debian trixie, with its Slurm (24.11) and Python (3.13), and with the
# newest PyTorch:
#   tests/lab/in-trixie.sh make test PYTEST_ARGS="-m 'slurm and not slow'"
#   tests/lab/in-trixie.sh            a shell there
# It needs root, debootstrap and rsync. The system is made once and kept; whatever was cut off is taken up again. The
# command has processes, mounts and a loopback device of its own: the kernel ends and removes all of them with it,
# also after kill -9. Nothing but files below NEMO_LAUNCH_TRIXIE stays, and deleting that folder removes everything.
#   NEMO_LAUNCH_TRIXIE=DIR         where the system lives (default /var/tmp/nemo-launch-trixie)
#   NEMO_LAUNCH_TRIXIE_MIRROR=URL  where its packages come from (default: where this machine's Debian packages do)
set -euo pipefail
DIR=${NEMO_LAUNCH_TRIXIE:-/var/tmp/nemo-launch-trixie}
ROOT=$DIR/root
CHECKOUT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
COPY=/opt/nemo_launch # of the checkout, inside: the run writes nothing into the checkout itself
# Of PyTorch pip takes the newest, gigabytes for GPUs included: Debian's (2.6) lacks libuv, so its torchrun cannot start
PACKAGES=(ca-certificates git make python3 python3-venv rsync util-linux)
INSIDE=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root USER=root LANG=C.UTF-8)

die() { echo "${0##*/}: $*" >&2; exit 1; }
say() { printf 'in-trixie: %s\n' "$*"; }

[[ $(id -u) = 0 ]] || die "needs root: it makes a system of its own and runs a cluster in it"
for program in debootstrap rsync unshare setpriv flock; do
  type -P "$program" >/dev/null || die "$program is missing (on Debian: apt-get install debootstrap rsync util-linux)"
done
mkdir -p "$DIR"
exec 9>"$DIR/lock" # one at a time; whatever runs inside holds it, too
flock --nonblock 9 || { say "waiting for another run in $DIR"; flock 9; }

# isolated [--net] COMMAND...: in namespaces of its own; it dies when this script does
isolated() {
  local net=()
  if [[ $1 = --net ]]; then net=(--net); shift; fi
  setpriv --pdeathsig KILL unshare --mount --pid --uts --ipc "${net[@]}" --fork --kill-child "$@"
}

# What a system needs of the kernel's file systems. $1 is its root; the rest is executed in it.
# shellcheck disable=SC2016
enter='
  root=$1 && shift
  mount --bind "$root" "$root"
  mount -t proc proc "$root/proc"
  mount --bind /dev "$root/dev"
  mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
  for folder in dev/shm tmp run; do mount -t tmpfs -o mode=1777 tmpfs "$root/$folder"; done
  chmod 755 "$root/run"
  mkdir "$root/run/lock"
  hostname trixie
  echo 127.0.0.1 localhost trixie >"$root/etc/hosts"
  # not chroot: whoever enters a mount namespace that was made there would find itself in the root of this machine
  cd "$root"
  pivot_root . .
  umount -l .
  cd /
  exec "$@"'

inside_online() { # for the set-up: with the network, and the settings of this machine for it
  isolated sh -euc "$enter" - "$ROOT" env "${INSIDE[@]}" DEBIAN_FRONTEND=noninteractive sh -euc "cd $COPY; $1"
}

mirror() {
  [[ ${NEMO_LAUNCH_TRIXIE_MIRROR:-} ]] && { echo "$NEMO_LAUNCH_TRIXIE_MIRROR"; return; }
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1
}

# done_once NAME VERSION: has this step been done as it is now?
done_once() { [[ $(cat "$DIR/$1.done" 2>/dev/null) = "$2" ]]; }

make_system() {
  local from
  done_once system trixie && return
  from=$(mirror)
  [[ $from ]] || die "NEMO_LAUNCH_TRIXIE_MIRROR is not set, and this machine's apt knows no mirror of Debian"
  say "making $ROOT (log: $DIR/system.log)"
  rm -rf --one-file-system "$ROOT"
  isolated debootstrap --variant=minbase trixie "$ROOT" "$from" >"$DIR/system.log" 2>&1 || {
    tail -5 "$DIR/system.log" >&2
    die "debootstrap failed"
  }
  printf '#!/bin/sh\nexit 101\n' >"$ROOT/usr/sbin/policy-rc.d" # packages start no services of theirs
  chmod +x "$ROOT/usr/sbin/policy-rc.d"
  echo trixie >"$DIR/system.done"
}

copy_checkout() {
  mkdir -p "$ROOT$COPY"
  rsync -a --delete --no-owner --no-group --chmod=a+rX --exclude=/.git --filter=':- .gitignore' "$CHECKOUT/" "$ROOT$COPY/"
  # tests ask git which files are ours
  if type -P git >/dev/null; then git -C "$ROOT$COPY" init -q && git -C "$ROOT$COPY" add --all; fi
}

use_settings_of_machine() { # names, certificates and where pip looks; none of it is needed once all is installed
  local file
  for file in /etc/resolv.conf /etc/ssl/certs/ca-certificates.crt /etc/pip.conf; do
    [[ ! -e $file ]] || install -D -m 644 "$file" "$ROOT$file"
  done
}

install_packages() {
  local version
  version="${PACKAGES[*]} $(sha256sum <"$CHECKOUT/tests/lab/slurm-up.sh")"
  done_once packages "$version" && return
  say "installing packages (log: $DIR/packages.log)"
  inside_online "dpkg --configure -a; apt-get update; apt-get install -y --no-install-recommends ${PACKAGES[*]}
    tests/lab/slurm-up.sh --install; apt-get clean" >"$DIR/packages.log" 2>&1 || {
    tail -5 "$DIR/packages.log" >&2
    die "installing the packages failed"
  }
  echo "$version" >"$DIR/packages.done"
}

make_venv() {
  local version
  version=$(cat "$CHECKOUT/pyproject.toml" "$CHECKOUT/constraints.txt" "${BASH_SOURCE[0]}" | sha256sum)
  if ! done_once venv "$version"; then
    say "making .venv (log: $DIR/venv.log)"
    inside_online "
      python3 -m venv --clear .venv
      grep -v '^torch==' constraints.txt >.venv/constraints.txt
      .venv/bin/python -m pip install --constraint .venv/constraints.txt --editable '.[torch,dev]'" \
      >"$DIR/venv.log" 2>&1 || {
      tail -5 "$DIR/venv.log" >&2
      die "installing the Python packages failed"
    }
    echo "$version" >"$DIR/venv.done"
  fi
  touch "$ROOT$COPY/.venv/.complete" # so that make takes it for its own
}

make_system
copy_checkout
use_settings_of_machine
install_packages
make_venv
rm -rf --one-file-system "$ROOT"/var/tmp/* # clusters of the run before; theirs are dead, their logs have been there
say "$(sed -n 's/^Version: //p' <(chroot "$ROOT" dpkg -s slurm-wlm)) is this Slurm; logs of the cluster: $ROOT/var/tmp"
(($#)) || set -- bash
# shellcheck disable=SC2016
isolated --net sh -euc "$enter" - "$ROOT" env -i "${INSIDE[@]}" TERM="${TERM:-dumb}" NEMO_LAUNCH_REQUIRE_SLURM=1 \
  sh -euc 'ip link set lo up; cd "$1"; shift; "$@"' - "$COPY" "$@"
