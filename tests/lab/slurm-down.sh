#!/bin/bash
# Stops the cluster that slurm-up.sh started (same environment): only processes that it wrote down, by pid.
set -uo pipefail
# shellcheck source=tests/lab/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[[ -d $LAB/run ]] || exit 0
enter "$0" "$@"

stop() { # stop NAME SECONDS PIDFILE...: TERM them all, wait, KILL what is left
  local name=$1 end=$((SECONDS + $2)) file pid
  shift 2
  for file; do
    if alive "$name" "$file"; then kill -TERM "$(cat "$file")"; fi
  done
  for file; do
    pid=$(cat "$file" 2>/dev/null) || continue
    while is_running "$pid" "$name" && ((SECONDS < end)); do sleep 0.05; done
    if is_running "$pid" "$name"; then kill -KILL "$pid"; fi
    rm -f "$file"
  done
}

# jobs first, while the controller can still end them
if alive slurmctld "$LAB/run/slurmctld.pid"; then
  timeout 20 squeue -h -o %A 2>/dev/null | sort -u | xargs -r timeout 20 scancel --full 2>/dev/null
  for _ in {1..100}; do
    [[ $(timeout 5 squeue -h -o %A 2>/dev/null) ]] || break
    sleep 0.1
  done
fi
stop slurmd 10 "$LAB"/run/slurmd-*.pid
# step managers that outlived their slurmd: those with this cluster's configuration in their environment
for process in /proc/[0-9]*; do
  if is_running "${process#/proc/}" slurmstepd &&
    tr '\0' '\n' <"$process/environ" 2>/dev/null | grep -qxF "SLURM_CONF=$SLURM_CONF"; then
    kill -KILL "${process#/proc/}" 2>/dev/null
  fi
done
stop slurmctld 15 "$LAB/run/slurmctld.pid"
stop slurmdbd 15 "$LAB/run/slurmdbd.pid"
stop mariadbd 20 "$LAB/run/mariadbd.pid"
sessions=$(pgrep -P "$(cat "$LAB/run/sshd.pid" 2>/dev/null || echo 0)" 2>/dev/null) # they outlive the listener
stop sshd 5 "$LAB/run/sshd.pid"
for pid in $sessions; do
  if is_running "$pid" sshd; then kill -TERM "$pid"; fi
done
stop munged 5 "$LAB/run/munged.pid"
if [[ $NETNS ]]; then ip netns delete "$NETNS"; fi
exit 0
