#!/bin/bash
# The commands of a group, side by side in one job, each a batch script of its own:
#   bash group.sh POLICY GRACE NAME:PART:VARIABLE...
# fail-fast: the first failure ends the others. wait-all: every one comes to its end. leader: the others end when the
# first of the names has. Under each of them the job has failed when one failed by itself, with that one's exit code.
# GRACE: seconds between TERM and KILL, empty: of Slurm's KillWait. PART: of a heterogeneous job, on whose first node the
# command's batch script runs. VARIABLE: gets the command's hosts, for all of them.

say() { printf 'nemo_launch: %s\n' "$*"; }

# Of the step that this is, and of the job's own start: each command gets its own.
for name in ${!SLURM_*} MASTER_ADDR MASTER_PORT WORLD_SIZE RANK LOCAL_RANK NODE_RANK; do
  case $name in
  SLURM_JOB_*GPU* | SLURM_JOB_ID | SLURM_JOB_N* | SLURM_JOB_CPUS* | SLURM_JOB_P* | SLURM_JOB_A* | SLURM_JOB_END*) ;;
  SLURM_CONF* | SLURM_RESTART_COUNT | SLURM_CLUSTER* | SLURM_SUBMIT* | SLURM_HET_SIZE | *_HET_GROUP_*) ;;
  *) unset -v "$name" ;;
  esac
done

be_member() { # be_member PART FOLDER: its batch script, for which the part of the job is the whole
  local of value
  for of in ${1:+NODELIST NUM_NODES CPUS_PER_NODE PARTITION ACCOUNT QOS}; do
    value=SLURM_JOB_${of}_HET_GROUP_$1
    if [[ ${!value+set} ]]; then export "SLURM_JOB_$of=${!value}"; fi
  done
  while IFS= read -r -d '' value; do export "${value?}"; done <"$2/environment"
  printf '%s\n' $$ >"$2/pid-$NEMO_LAUNCH_JOB_ID-${SLURM_RESTART_COUNT:-0}"
  exec bash "$2/job.sh"
}

if [[ $1 = part ]]; then be_member "$2" "$3"; fi # group.sh started itself on another node

policy=$1 grace=$2
shift 2
attempt=$NEMO_LAUNCH_JOB_ID-${SLURM_RESTART_COUNT:-0} dir=$NEMO_LAUNCH_TASK_DIR
ranks=$NEMO_LAUNCH_TASK_DIR/ranks-$attempt
declare -A pids codes parts
# On this machine all attempts have one job; on Slurm a follow-up job counts from 0 again.
if [[ -z ${SLURM_RESTART_COUNT:-} && -d $dir/ranks-$NEMO_LAUNCH_JOB_ID-$NEMO_LAUNCH_ATTEMPT ]]; then
  attempt=$NEMO_LAUNCH_JOB_ID-$NEMO_LAUNCH_ATTEMPT ranks=$dir/ranks-$attempt
fi
names=() readers=() told='' ending='' first='' since=0
for word in "$@"; do
  IFS=: read -r name part variable <<<"$word"
  names+=("$name") parts[$name]=$part
  nodes=NEMO_LAUNCH_NODELIST hosts=localhost
  if [[ $part ]]; then nodes=SLURM_JOB_NODELIST_HET_GROUP_$part; fi
  if [[ ${!nodes:-} ]]; then hosts=$(scontrol show hostnames "${!nodes}"); fi
  export "$variable=${hosts//$'\n'/,}"
done
if [[ ${NEMO_LAUNCH_NODELIST:-} ]]; then export SLURM_JOB_NODELIST=$NEMO_LAUNCH_NODELIST; fi # the step has one node
unset -v NEMO_LAUNCH_NODELIST
set -- "${names[@]}"

on_part() { # on_part PART WORD...: a step on the part's first node, beside what runs there
  srun "--het-group=$1" --export=ALL --overlap --mpi=none --nodes=1 --ntasks=1 --cpus-per-task=1 "${@:2}"
}

run() { # run NAME: its lines go to a log of its own, and labelled to the job's
  local pipe=$ranks/$1.pipe part=${parts[$1]}
  mkfifo -- "$pipe"
  (
    trap '' TERM INT HUP USR1 USR2
    tee -a -- "$dir/$1/$NEMO_LAUNCH_JOB_ID.log" <"$pipe" 2>/dev/null | sed -u "s/^/[$1] /"
  ) &
  readers+=($!)
  set -m # a group of its own: it is signalled from here, and once
  (
    trap - TERM INT HUP
    if [[ ${part:-0} = 0 ]]; then exec bash "$0" part "$part" "$dir/$1"; fi
    on_part "$part" bash "$0" part "$part" "$dir/$1"
  ) </dev/null >"$pipe" 2>&1 &
  pids[$1]=$!
  set +m
}

end_others() { # once, and for good after a while
  local name pid
  if [[ -z $grace && $(scontrol show config 2>/dev/null) =~ KillWait\ *=\ ([0-9]+) ]]; then
    grace=$((BASH_REMATCH[1] + 10)) # it takes a while until the first signal is everywhere
  fi
  ending=1 since=$SECONDS
  for name in "${!pids[@]}"; do
    if [[ ${codes[$name]+set} ]]; then continue; fi
    : >"$dir/$name/end-$attempt" # it was not Slurm, which signals every process itself
    pid=$(cat -- "$dir/$name/pid-$attempt" 2>/dev/null)
    if [[ ${parts[$name]:-0} != 0 && $pid ]]; then
      on_part "${parts[$name]}" bash -c "kill -s TERM $pid" </dev/null &
    else
      kill -s TERM "${pids[$name]}" 2>/dev/null
    fi
  done
}

told() { # Slurm signals every process itself
  told=1
  if [[ ${SLURM_JOB_ID:-} ]]; then ending=1 since=$SECONDS; else end_others; fi
}

trap told TERM INT HUP
trap : USR1 USR2
for name in "$@"; do
  say "$name begins"
  run "$name"
done
leader=$1

left=$#
while [[ $left -gt 0 ]]; do
  sleep 0.3 &
  wait $! 2>/dev/null
  ended=()
  for name in "$@"; do
    if [[ -z ${codes[$name]+set} ]] && ! kill -0 "${pids[$name]}" 2>/dev/null; then ended+=("$name"); fi
  done
  for name in "${ended[@]}"; do
    wait "${pids[$name]}"
    codes[$name]=$?
    left=$((left - 1))
    say "$name ended with exit code ${codes[$name]}"
    record=$dir/$name/exit-$attempt.json
    said=$(cat -- "$record" 2>/dev/null)
    # Those that ended because they were asked to have not failed.
    if [[ ${codes[$name]} != 0 && (-z $ending || ($said && $said != *'"cause": "signal"'* && $said != *'"cause": "cancelled"'*)) ]]; then
      # of several at once the one whose record is the oldest
      if [[ -z $first || $record -ot $first_record ]]; then first=$name first_record=$record; fi
    fi
  done
  if [[ -z $ending && $left -gt 0 ]]; then
    if [[ $first && $policy != wait-all ]]; then
      say "$first failed: the others are ended ($policy)"
      end_others
    elif [[ $policy = leader && ${codes[$leader]+set} ]]; then
      say "$leader, the leader, has ended: the others are ended"
      end_others
    fi
  elif [[ $ending && $left -gt 0 && $((SECONDS - since)) -ge ${grace:-30} ]]; then
    end_others # a second TERM kills
  fi
done

for pid in "${readers[@]}"; do wait "$pid"; done
rm -f -- "$ranks"/*.pipe
if [[ $first ]]; then
  member=$dir/$first/ranks-$attempt
  cp -- "$member/first-failure.json" "$ranks/first-failure.json" 2>/dev/null
  text="$first failed first: exit code ${codes[$first]}"
  if [[ -r $member/problem ]]; then
    text+=". $(tail -n +2 -- "$member/problem")"
  else # what its batch script or Slurm said of its end
    said=$(sed -nE 's/.*"message": "(([^"\\]|\\.)*)".*/\1/p' "$dir/$first/exit-$attempt.json" 2>/dev/null)
    said=${said//\\n/ } said=${said//\\\"/\"}
    if [[ $said ]]; then text+=". $said"; fi
  fi
  cause=$(sed -nE 's/.*"cause": "([a-z]+)".*/\1/p' "$dir/$first/exit-$attempt.json" 2>/dev/null)
  if [[ -z $cause || $cause = ended ]]; then cause=member; fi
  printf '%s\n%s\n' "$cause" "$text" >"$ranks/problem"
  say "$text"
  exit "${codes[$first]}"
fi
if [[ $told ]]; then exit 143; fi
