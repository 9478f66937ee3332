#!/bin/sh
# One rank of a program that is not Python, with nothing but a POSIX shell and basic utilities (dash, busybox):
#   sh rank.sh LAUNCHER RANKS WORK_DIR N M [NAME=VALUE]... WORD...
# The program gets M variables more: they would change what the utilities here do. Of its words the first N are the
# interpreter; 0: bash, else sh.
# Names begin with nl_ because an assignment to any other could change the program's environment.
nl_launcher=$1 nl_ranks=$2 nl_work_dir=$3 nl_interpreter=$4 nl_variables=$5
shift 5
nl_node=${SLURMD_NODENAME:-$(uname -n)}
nl_node=${nl_node%%.*}
nl_rank=0 nl_world=1 nl_told=

if [ "$nl_launcher" = srun ]; then
  nl_rank=$SLURM_PROCID
  nl_world=${SLURM_STEP_NUM_TASKS:-$SLURM_NTASKS}
  export RANK="$SLURM_PROCID" LOCAL_RANK="$SLURM_LOCALID" NODE_RANK="$SLURM_NODEID" WORLD_SIZE="${WORLD_SIZE:-$nl_world}"
fi
if [ "$nl_rank" = 0 ] && [ "${SLURM_STEP_ID:-}" ]; then # by which the processes can be signalled
  echo "$SLURM_STEP_ID" >"$nl_ranks/step"
fi
if ! cd "$nl_work_dir" 2>/dev/null; then
  nl_text="work dir $nl_work_dir is missing or closed on $nl_node. It must exist on every node."
  printf 'nemo_launch: %s\n' "$nl_text"
  if [ ! -e "$nl_ranks/problem" ]; then printf 'workdir\n%s\n' "$nl_text" >"$nl_ranks/problem"; fi
  exit 78
fi
nl_path=$PATH nl_i=$nl_variables
while [ "$nl_i" -gt 0 ]; do # to the end of the words
  case $1 in PATH=*) nl_path=${1#PATH=} ;; esac
  set -- "$@" "$1"
  shift
  nl_i=$((nl_i - 1))
done
if [ "$nl_interpreter" = 0 ]; then
  nl_shell=$(PATH=$nl_path; command -v bash) || nl_shell=$(command -v bash) || nl_shell=$(command -v sh)
  set -- "$nl_shell" "$@"
fi
if [ "$nl_variables" -gt 0 ]; then
  nl_i=$(($# - nl_variables))
  while [ "$nl_i" -gt 0 ]; do # back in front
    set -- "$@" "$1"
    shift
    nl_i=$((nl_i - 1))
  done
  set -- env "$@"
fi

nl_label() { # lines of standard input, labelled; long ones in pieces that no other rank can cut (see output.py)
  LC_ALL=C
  while IFS= read -r nl_line || [ -n "$nl_line" ]; do
    if [ "${#nl_line}" -le 800 ]; then
      printf '[%s:%s] %s\n' "$nl_node" "$nl_rank" "$nl_line"
    else # fold holds its output back: it gets one line at a time, and only those that need it
      : >"$nl_pipe.long"
      printf '%s\n' "$nl_line" | { fold -b -w 800 2>/dev/null || cat; } | while IFS= read -r nl_line; do
        [ -p "$nl_pipe.2" ] || exit # the rank is gone
        printf '[%s:%s] %s\n' "$nl_node" "$nl_rank" "$nl_line"
      done
      rm -f "$nl_pipe.long"
    fi
  done
}

nl_end_readers() { # what is there is read, long lines are cut to their end unless the job is being ended
  for nl_reading in "$nl_reader" "$nl_labeller"; do
    nl_i=0
    sleep 2
    while [ -e "$nl_pipe.long" ] && [ ! "$nl_told" ] && [ "$nl_i" -lt 30 ]; do
      sleep 1
      nl_i=$((nl_i + 1))
    done
    if [ "$nl_reading" ]; then kill -9 "$nl_reading"; fi
  done
}

# Survived here, and back to normal in the program: srun signals every process of the step itself.
trap 'nl_told=1' TERM HUP INT
trap : USR1 USR2

# Slurm waits for the end of the output, which what the program left running may hold: it gets a pipe of ours.
nl_pipe=$nl_ranks/rank-$nl_rank.pipe nl_labeller=
if { [ "$nl_world" -gt 1 ] || [ "${SLURM_STEP_ID:-}" ]; } && mkfifo "$nl_pipe" "$nl_pipe.2" 2>/dev/null; then
  if [ "$nl_world" -gt 1 ]; then
    (trap '' TERM HUP INT USR1 USR2; exec tee -a "$nl_ranks/rank-$nl_rank.log" <"$nl_pipe" >"$nl_pipe.2" 2>/dev/null) &
    nl_reader=$!
    (trap '' TERM HUP INT USR1 USR2; nl_label <"$nl_pipe.2") &
    nl_labeller=$!
  else # its bytes as they are
    (trap '' TERM HUP INT USR1 USR2; exec cat <"$nl_pipe") &
    nl_reader=$!
  fi
  "$@" >"$nl_pipe" 2>&1
  nl_code=$?
  # Slurm signals this one as well.
  (trap 'nl_told=1' TERM HUP INT; trap '' USR1 USR2; nl_end_readers) >/dev/null 2>&1 &
  nl_killer=$!
  for nl_i in 1 2 3 4; do wait "$nl_reader" $nl_labeller; done 2>/dev/null # a signal ends wait, not the readers
  kill -9 "$nl_killer" "$nl_reader" $nl_labeller 2>/dev/null
  rm -f "$nl_pipe" "$nl_pipe.2" "$nl_pipe.long"
else # nothing between the program and the log
  "$@"
  nl_code=$?
fi

if [ "$nl_code" = 0 ]; then
  printf %s "${nl_told:+told}" >"$nl_ranks/rank-$nl_rank.ok"
  exit 0
fi
# A shell cannot tell a program that a signal killed from one that left with 128 and more: no signal is named.
# Whoever signals many processes does it one by one: ours may be about to come.
case $nl_code in 129 | 130 | 131 | 143) if [ ! "$nl_told" ]; then sleep 1; fi ;; esac
if [ "$nl_told" ]; then nl_told=true; else nl_told=false; fi
nl_new=$nl_ranks/rank-$nl_rank.json
printf '{"exit_code": %d, "signal": null, "rank": %d, "node": "%s", "world_size": %d, "induced": %s, "exception": "", "traceback": "", "time": %s}\n' \
  "$nl_code" "$nl_rank" "$nl_node" "$nl_world" "$nl_told" "$(date +%s)" >"$nl_new"
# link() decides who was first, also on NFS; what is told as a problem needs no rank
if [ "$nl_told" = false ] && [ ! -e "$nl_ranks/problem" ]; then
  if ln "$nl_new" "$nl_ranks/first-failure.json" 2>/dev/null && [ "$nl_world" -gt 1 ]; then
    printf 'nemo_launch: rank %d on %s failed first: exit code %d\n' "$nl_rank" "$nl_node" "$nl_code"
  fi
fi
exit "$nl_code"
