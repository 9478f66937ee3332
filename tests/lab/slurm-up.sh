#!/bin/bash
# Starts a real Slurm cluster of four nodes on this one machine, on the loopback device only.
#   slurm-up.sh            start what is not running yet (idempotent)
#   slurm-up.sh --clean    stop, wipe all state (jobs, database, logs), start
#   slurm-up.sh --install  only install the Debian packages it needs
# Debian builds Slurm with multiple-slurmd: each node is a slurmd with a port and a 127.x address of its own,
# in a UTS namespace, so that `hostname` in a job tells the node's name. slurm-conf.sh lists the variants.
#   NEMO_LAUNCH_LAB=DIR         where everything lives (default /var/tmp/nemo-launch-lab)
#   NEMO_LAUNCH_LAB_NETNS=NAME  run in this network namespace (made when missing): a cluster beside another one
set -euo pipefail
# shellcheck source=tests/lab/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PACKAGES=(slurm-wlm slurmdbd slurm-wlm-mysql-plugin libpmix2 munge mariadb-server
  openssh-server openssh-client iproute2)
BUILD_PACKAGES=(libslurm-dev gcc libc6-dev busybox) # for the stand-in of pyxis
PROGRAMS=(slurmctld slurmd srun slurmdbd munged mariadbd sshd ssh ip)
SSH_PORT=2222
DB_PORT=13306

say() { printf '%(%T)T %s\n' -1 "$*"; }
wait_for() { # wait_for SECONDS WHAT COMMAND...
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || die "timed out waiting for $what (logs: $LAB/log)"
    sleep 0.05
  done
}
in_uts() { # in_uts HOSTNAME COMMAND...: run it with a host name of its own
  # shellcheck disable=SC2016
  unshare --uts sh -c 'hostname "$0" && exec "$@"' "$@"
}
missing_programs() {
  local program
  for program in "${PROGRAMS[@]}"; do type -P "$program" >/dev/null || echo "$program"; done
}

can_build() { [[ -e /usr/include/slurm/spank.h ]] && type -P gcc busybox >/dev/null; }

install_packages() {
  local packages=("${PACKAGES[@]}")
  if ! can_build; then packages+=("${BUILD_PACKAGES[@]}"); elif [[ ! $(missing_programs) ]]; then return 0; fi
  type -P apt-get >/dev/null || die "this lab needs Debian's packages: ${packages[*]}"
  say "installing ${packages[*]}"
  # keeps apt from starting the packages' own services; taken away again unless it was there before
  local policy=/usr/sbin/policy-rc.d log=$LAB.apt.log ours=
  [[ -e $policy ]] || { printf '#!/bin/sh\nexit 101\n' >$policy; chmod +x $policy; ours=yes; }
  local install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${packages[@]}")
  "${install[@]}" >"$log" 2>&1 || { apt-get update && "${install[@]}"; } >>"$log" 2>&1 || {
    tail -20 "$log" >&2
    die "apt-get install failed"
  }
  [[ ! $ours ]] || rm -f $policy
}

# ---- what is there before any daemon starts ------------------------------------------------------

make_user() {
  # '*' and not '!': sshd takes a locked account for forbidden, even with a key
  id -u "$LAB_USER" >/dev/null 2>&1 || useradd --create-home --shell /bin/bash --password '*' "$LAB_USER"
}

host_name() { # host_name ADDRESS NAME
  grep -qsE "^$1[[:space:]]+(.*[[:space:]])?$2([[:space:]]|\$)" /etc/hosts || echo "$1 $2" >>/etc/hosts
}

make_names() {
  local node name address
  host_name 127.0.0.1 "$LOGIN"
  for node in "${NODES[@]}"; do
    read -r _ name address _ <<<"$node"
    host_name "$address" "$name"
  done
  # Slurm resolves names with AI_ADDRCONFIG, for which glibc wants an address other than 127.0.0.1 (a new
  # network namespace has none); a second loopback address will do
  if [[ $(ip -4 -o addr show | grep -cv ' 127\.0\.0\.1/') = 0 ]]; then ip addr add 127.0.0.2/8 dev lo; fi
}

make_files() {
  local i new=$LAB/etc/slurm.conf.new pmix
  umask 022 # whoever calls: jobs of any user read the configuration
  mkdir -p "$LAB"/{etc,run,log,state,dev}
  install -d -o munge -g munge -m 755 "$LAB/munge"
  for i in {0..7}; do # eight pretend GPUs a node: device files that are /dev/null
    [[ -c $LAB/dev/nvidia$i ]] || mknod -m 666 "$LAB/dev/nvidia$i" c 1 3
  done
  # Slurm's pmix plugin opens libpmix.so by that very name, which only the -dev package has
  pmix=/usr/lib/$(uname -m)-linux-gnu/pmix2/lib
  [[ ! -e $pmix/libpmix.so.2 || -e $pmix/libpmix.so ]] || ln -s libpmix.so.2 "$pmix/libpmix.so"

  "$HERE/slurm-conf.sh" >"$new"
  CHANGED=
  cmp -s "$new" "$LAB/etc/slurm.conf" || CHANGED=yes
  mv "$new" "$LAB/etc/slurm.conf"
  echo "Name=gpu File=$LAB/dev/nvidia[0-7]" >"$LAB/etc/gres.conf"
  {
    echo "CgroupPlugin=cgroup/v1"
    # with task/cgroup a job that takes more memory than it asked for is ended
    if [[ ${NEMO_LAUNCH_LAB_TASK_PLUGIN:-} = *cgroup* ]]; then echo "ConstrainRAMSpace=yes"; fi
  } >"$LAB/etc/cgroup.conf"
  install -m 600 /dev/null "$LAB/etc/slurmdbd.conf" # Slurm refuses it when others can read it
  cat >"$LAB/etc/slurmdbd.conf" <<CONF
AuthType=auth/munge
AuthInfo=socket=$LAB/munge/munge.socket
DbdHost=$LOGIN
DbdAddr=127.0.0.1
DbdPort=6819
SlurmUser=root
PidFile=$LAB/run/slurmdbd.pid
LogFile=$LAB/log/slurmdbd.log
DebugLevel=info
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$DB_PORT
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
CONF
}

# The stand-in of pyxis: srun and the nodes get its options; images are looked for in $LAB/registry
make_pyxis() {
  local source=$HERE/pyxis/spank_pyxis.c plugin=$LAB/lib/spank_pyxis.so
  can_build || die "the stand-in of pyxis needs: ${BUILD_PACKAGES[*]} ($HERE/slurm-up.sh --install)"
  mkdir -p "$LAB"/{lib,registry,containers}
  if [[ ! $plugin -nt $source ]]; then
    gcc -shared -fPIC -Wall -Wextra -O1 -Wno-format-truncation -o "$plugin.new" "$source"
    mv "$plugin.new" "$plugin"
  fi
  echo "required $plugin registry=$LAB/registry state=$LAB/containers" >"$LAB/etc/plugstack.conf"
}

# ---- the daemons -----------------------------------------------------------------------------------

start_munge() {
  if alive munged "$LAB/run/munged.pid"; then return; fi
  say "munged"
  [[ -s $LAB/munge/munge.key ]] || (umask 077 && head -c 128 /dev/urandom >"$LAB/munge/munge.key")
  chown munge:munge "$LAB/munge/munge.key"
  rm -f "$LAB"/munge/munge.socket*
  setpriv --reuid=munge --regid=munge --init-groups munged --socket="$LAB/munge/munge.socket" \
    --key-file="$LAB/munge/munge.key" --pid-file="$LAB/munge/munged.pid" \
    --log-file="$LAB/munge/munged.log" --seed-file="$LAB/munge/munged.seed" --num-threads=4
  cp "$LAB/munge/munged.pid" "$LAB/run/munged.pid"
}

sql() { mariadb --no-defaults --socket="$LAB/mysql/mysqld.sock" -u root "$@"; }

start_database() {
  if alive mariadbd "$LAB/run/mariadbd.pid"; then return; fi
  say "mariadbd"
  install -d -o mysql -g mysql -m 755 "$LAB/mysql"
  if [[ ! -d $LAB/mysql/data/mysql ]]; then
    mariadb-install-db --no-defaults --force --user=mysql --datadir="$LAB/mysql/data" --skip-test-db \
      --auth-root-authentication-method=socket --innodb-log-file-size=16M >"$LAB/log/mariadb-install.log" 2>&1
  fi
  setsid mariadbd --no-defaults --user=mysql --datadir="$LAB/mysql/data" --socket="$LAB/mysql/mysqld.sock" \
    --bind-address=127.0.0.1 --port=$DB_PORT --pid-file="$LAB/mysql/mariadbd.pid" --skip-name-resolve \
    --innodb-buffer-pool-size=128M --innodb-log-file-size=16M --innodb-lock-wait-timeout=900 \
    --innodb-flush-log-at-trx-commit=0 >"$LAB/log/mariadbd.log" 2>&1 </dev/null &
  echo $! >"$LAB/run/mariadbd.pid"
  disown
  wait_for 60 "MariaDB" sql -e 'select 1'
  sql -e "create database if not exists slurm_acct_db;
          create user if not exists 'slurm'@'127.0.0.1' identified by 'slurm';
          grant all on slurm_acct_db.* to 'slurm'@'127.0.0.1';"
}

start_slurmdbd() {
  if ! alive slurmdbd "$LAB/run/slurmdbd.pid"; then
    say "slurmdbd"
    in_uts "$LOGIN" slurmdbd
    wait_for 60 "slurmdbd" sacctmgr -n show cluster
  fi
  if [[ -z $(sacctmgr -nP show user "$LAB_USER" format=user) ]]; then
    sacctmgr -i add cluster lab >/dev/null || true # there already when an earlier start was cut short
    sacctmgr -i add account lab Cluster=lab Description=lab Organization=lab >/dev/null || true
    sacctmgr -i add user "root,$LAB_USER" Account=lab Cluster=lab >/dev/null
  fi
}

start_slurm() {
  local node name
  if ! alive slurmctld "$LAB/run/slurmctld.pid"; then
    say "slurmctld"
    in_uts "$LOGIN" slurmctld -f "$SLURM_CONF"
  elif [[ $CHANGED ]]; then
    say "configuration changed: scontrol reconfigure (ports, nodes and plugins need slurm-down.sh first)"
    scontrol reconfigure
  fi
  for node in "${NODES[@]}"; do
    read -r _ name _ <<<"$node"
    if alive slurmd "$LAB/run/slurmd-$name.pid"; then continue; fi
    say "slurmd $name"
    mkdir -p "$LAB/spool-$name" "$LAB/tmp-$name"
    chmod 1777 "$LAB/tmp-$name"
    if [[ ${NEMO_LAUNCH_LAB_PYXIS:-} ]]; then # $LAB/local is what the node's own disk would be
      mkdir -p "$LAB/local" "$LAB/local-$name"
      chmod 1777 "$LAB/local-$name"
      # shellcheck disable=SC2016
      unshare --mount --propagation slave sh -c 'mount --bind "$1" "$2" && shift 2 && exec "$@"' - \
        "$LAB/local-$name" "$LAB/local" unshare --uts sh -c 'hostname "$0" && exec slurmd -f "$SLURM_CONF" -N "$0"' "$name"
    else
      in_uts "$name" slurmd -f "$SLURM_CONF" -N "$name"
    fi
  done
}

# The login node: `ssh -F $LAB/ssh/config login-0` is the lab's user there (key only)
start_sshd() {
  local ssh=$LAB/ssh
  if alive sshd "$LAB/run/sshd.pid"; then return; fi
  say "sshd on 127.0.0.1:$SSH_PORT"
  mkdir -p /run/sshd "$ssh"
  [[ -s $ssh/host_key ]] || ssh-keygen -q -t ed25519 -N '' -C "$LOGIN" -f "$ssh/host_key"
  [[ -s $ssh/id_ed25519 ]] || ssh-keygen -q -t ed25519 -N '' -C slurm-lab -f "$ssh/id_ed25519"
  chown "$LAB_USER" "$ssh/id_ed25519"
  cp "$ssh/id_ed25519.pub" "$ssh/authorized_keys"
  echo "[127.0.0.1]:$SSH_PORT $(cut -d' ' -f1,2 "$ssh/host_key.pub")" >"$ssh/known_hosts"
  cat >"$ssh/sshd_config" <<CONF
ListenAddress 127.0.0.1
Port $SSH_PORT
HostKey $ssh/host_key
AuthorizedKeysFile $ssh/authorized_keys
PidFile $LAB/run/sshd.pid
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
SetEnv SLURM_CONF=$SLURM_CONF
Subsystem sftp internal-sftp
MaxStartups 100
MaxSessions 100
CONF
  cat >"$ssh/config" <<CONF
Host $LOGIN
  HostName 127.0.0.1
  Port $SSH_PORT
  User $LAB_USER
  IdentityFile $ssh/id_ed25519
  IdentitiesOnly yes
  UserKnownHostsFile $ssh/known_hosts
  HostKeyAlias [127.0.0.1]:$SSH_PORT
CONF
  in_uts "$LOGIN" /usr/sbin/sshd -f "$ssh/sshd_config" -E "$LAB/log/sshd.log"
  wait_for 10 "sshd" test -s "$LAB/run/sshd.pid"
}

all_up() { # every node answers (sinfo puts a star behind the state of one that does not)
  [[ $(sinfo -h -N -o '%N %t' | sort -u |
    grep -cE ' (idle|mix|alloc|comp|plnd|resv|maint|drain|drng)$') -ge ${#NODES[@]} ]]
}

case ${1:-} in
--install) [[ $(id -u) = 0 ]] || die "--install needs root"; install_packages; exit ;;
--clean | "") ;;
*) die "unknown argument $1 (--clean, --install)" ;;
esac
if [[ ${1:-} = --clean && ! ${NEMO_LAUNCH_LAB_ENTERED:-} ]]; then
  "$HERE/slurm-down.sh"
  rm -rf "$LAB"
fi
enter "$0" "$@"
trap 'echo "${0##*/}: line $LINENO failed: $BASH_COMMAND (logs: $LAB/log)" >&2' ERR
absent=$(missing_programs)
[[ -z $absent ]] || die "missing: ${absent//$'\n'/ }. Run as root: $HERE/slurm-up.sh --install"
make_user
make_names
make_files
if [[ ${NEMO_LAUNCH_LAB_PYXIS:-} ]]; then make_pyxis; fi
start_munge
if [[ ${NEMO_LAUNCH_LAB_ACCOUNTING:-slurmdbd} = slurmdbd ]]; then
  start_database
  start_slurmdbd
fi
start_slurm
start_sshd
wait_for 60 "all nodes" all_up
sinfo -h -R # drained nodes stay drained: scontrol update nodename=... state=resume, or --clean
say "up: export SLURM_CONF=$SLURM_CONF"
