# Sourced by slurm-up.sh and slurm-down.sh: where the lab is, and how its processes are recognised.
# shellcheck shell=bash disable=SC2034  # the variables are used by the scripts that source this file

LAB=${NEMO_LAUNCH_LAB:-/var/tmp/nemo-launch-lab} # every file of the cluster lives here
NETNS=${NEMO_LAUNCH_LAB_NETNS:-}                 # network namespace: a second cluster on the same ports
LAB_USER=nemo-user                               # who runs the launcher in tests: no rights at all
LOGIN=login-0                                    # host name of the controller and of the login node
export SLURM_CONF=$LAB/etc/slurm.conf

# partition  node  address  port of its slurmd (which listens on every address: ports must differ)
NODES=(
  "a3m a3m-0 127.0.10.1 6821"
  "a3m a3m-1 127.0.10.2 6822"
  "a3u a3u-0 127.0.20.1 6823"
  "a3u a3u-1 127.0.20.2 6824"
)

die() { echo "${0##*/}: $*" >&2; exit 1; }

# Runs the calling script again: alone (two test sessions may start the lab at the same moment), and
# inside the network namespace. flock --close keeps the lock from the daemons, which live on.
enter() { # enter "$0" "$@"
  [[ $(id -u) = 0 ]] || die "needs root: the cluster's daemons run as root on a machine of their own"
  if [[ ${NEMO_LAUNCH_LAB_ENTERED:-} = "$$" ]]; then
    unset NEMO_LAUNCH_LAB_ENTERED
    return
  fi
  local namespace=()
  if [[ $NETNS ]]; then
    [[ -e /run/netns/$NETNS ]] || ip netns add "$NETNS"
    ip -n "$NETNS" link set lo up
    # not `ip netns exec`: its private mount namespace would hide later mounts from the nodes
    namespace=(nsenter "--net=/run/netns/$NETNS")
  fi
  # shellcheck disable=SC2016
  exec flock --close "$LAB.lock" "${namespace[@]}" bash -c 'NEMO_LAUNCH_LAB_ENTERED=$$ exec "$@"' - "$@"
}

is_running() { # is_running PID NAME: is that process there, is it that program, and not a zombie?
  [[ $1 =~ ^[0-9]+$ && $(cat "/proc/$1/comm" 2>/dev/null) = "$2"* ]] &&
    ! grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null
}
alive() { # alive NAME PIDFILE
  is_running "$(cat "$2" 2>/dev/null)" "$1"
}
