# shellcheck shell=bash disable=SC2034,SC2154,SC2317  # the values are assigned above; skeleton.sh below uses these
# Restarts under Slurm: why a job is ended, whether it starts again, and at the start of an attempt why it is here.
# The job is put back into the queue with scontrol requeue; where the site refuses that, a follow-up job is submitted.
#
# Files in the job's folder: restart-JOB-N.json, that run N will be followed by another, and why;
# follows-JOB.json, whose follow-up this job is.

nl_number=0                                              # of this attempt, over all jobs of the task
nl_why=''                                                # what ended the attempt before
nl_again=''                                              # what this attempt is restarted for, once that is sure
nl_queued=''                                             # … with this very job, which Slurm will end
nl_not=''                                                # why it is not, where somebody may wonder
nl_requeued=''                                           # Slurm itself starts it again
nl_clock=''                                              # process that wakes this one before the time limit
nl_asked=0                                               # when the last checkpoint was asked for
nl_state='' nl_reason='' nl_limit='' nl_preempted='' nl_starts=0 # … what the controller said of this job

nl_ask_controller() { # nl_state …: false if nobody answers. Times are unix seconds.
  local LC_ALL=C nl_said nl_rest nl_lines=$'\n *'
  nl_said=$(SLURM_TIME_FORMAT=%s timeout 15 scontrol show job "$SLURM_JOB_ID" 2>/dev/null) || return 1
  [[ $nl_said =~ ${nl_lines}JobState=([A-Z_]+)\ Reason=([^[:space:]]+) ]] || return 1
  nl_state=${BASH_REMATCH[1]} nl_reason=${BASH_REMATCH[2]} nl_limit='' nl_preempted='' nl_starts=0
  nl_rest=$nl_said
  while [[ $nl_rest =~ \ EndTime=([0-9]+)(.*) ]]; do # of a heterogeneous job the part that ends first
    if [[ -z $nl_limit || ${BASH_REMATCH[1]} -lt $nl_limit ]]; then nl_limit=${BASH_REMATCH[1]}; fi
    nl_rest=${BASH_REMATCH[2]}
  done
  if [[ $nl_said =~ \ PreemptTime=([0-9]+) ]]; then nl_preempted=${BASH_REMATCH[1]}; fi
  if [[ $nl_said =~ \ Restarts=([0-9]+) ]]; then nl_starts=${BASH_REMATCH[1]}; fi
}

nl_allowed() { # nl_allowed CAUSE [CODE]: whether the policy has it
  if [[ " ${nl_resume_on[*]} " != *" $1 "* ]]; then return 1; fi
  [[ $1 != error || ${#nl_resume_codes[@]} = 0 || " ${nl_resume_codes[*]} " = *" $2 "* ]]
}

nl_in_words() { # nl_in_words CAUSE [CODE]
  case $1 in
  preempted) printf 'it was preempted' ;;
  timeout) printf 'it reached its time limit' ;;
  node_fail) printf 'its node failed' ;;
  error) printf 'it failed%s' "${2:+ with exit code $2}" ;;
  by_hand) printf 'somebody requeued it' ;;
  *) printf 'it was ended, and nobody says why' ;;
  esac
}

nl_now() { printf '%(%s)T' -1; }

nl_shielded() { (trap '' TERM INT HUP USR1 ALRM && "$@"); } # Slurm signals every process of the script

nl_nap() { read -rt "$1" <> <(:); } # seconds, without a process that would be left behind

# --- an attempt ends ---------------------------------------------------------------------------------------------------

nl_try_again() { # nl_try_again CAUSE [CODE]: have the job start again; false if it does not
  if [[ $nl_again ]]; then return 0; fi
  if ! nl_allowed "$@" || [[ -e $nl_job_dir/cancelled ]]; then return 1; fi
  if ((nl_number >= nl_max_restarts)); then
    nl_not="not started again: it has been $nl_number times, which is the most (max_restarts)"
    return 1
  fi
  # Written first: the job can be killed as soon as the controller has heard.
  nl_shielded nl_write "$nl_job_dir/restart-$nl_attempt.json" "{\"schema_version\": 1, \"cause\": \"$1\", \"code\": ${2:-null}}"
  if [[ ! -e $nl_job_dir/restart-$nl_attempt.json ]]; then return 1; fi # full: no marker of a cancellation, either
  if nl_requeue; then nl_queued=1; fi
  if [[ $nl_queued ]] || nl_follow_up "$@"; then
    nl_again=$1
    nl_say "$(nl_in_words "$@"): it will start again (restart $((nl_number + 1)) of at most $nl_max_restarts)"
    return 0
  fi
  nl_shielded rm -f -- "$nl_job_dir/restart-$nl_attempt.json"
  return 1
}

nl_requeue() { # false: it will not be
  local nl_i nl_said
  for ((nl_i = 0; nl_i < 10; nl_i++)); do # for as long as nobody answers
    # Slurm's TERM may come before the answer: no timeout, which would pass it on; and 0 is said, because the status of
    # a bare return may be that of a trap.
    if nl_said=$(trap '' TERM INT HUP USR1 ALRM && LC_ALL=C scontrol requeue "$SLURM_JOB_ID" 2>&1); then return 0; fi
    if nl_ask_controller && ((nl_starts > ${SLURM_RESTART_COUNT:-0})); then return 0; fi # the answer was lost
    if [[ ! $nl_said =~ [Cc]ontact|[Tt]imed\ out|[Cc]onnect ]]; then break; fi
    nl_nap 3
  done
  nl_say "scontrol requeue: ${nl_said//$'\n'/ }"
  return 1
}

nl_follow_up() { # nl_follow_up CAUSE [CODE]: the same script as another job, which starts when this one has ended
  local nl_new nl_entry
  nl_new=$(
    trap '' TERM INT HUP USR1 ALRM
    # What this job got, and not what has been made of it since; never on a command line.
    for nl_entry in $(compgen -e); do unset -v "$nl_entry"; done 2>/dev/null
    while IFS= read -r -d '' nl_entry; do
      case ${nl_entry%%=*} in
      SLURM_CONF | SLURM_CONF_SERVER) ;;
      SLURM_* | SLURMD_*) continue ;;
      esac
      if [[ ${nl_entry%%=*} =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]]; then export "${nl_entry?}"; fi
    done <"/proc/$$/environ"
    sbatch --parsable "--dependency=afterany:$nl_job" "$nl_job_dir/job.sh" 2>"$nl_job_dir/follow-up.err"
  )
  nl_new=${nl_new##*$'\n'}
  nl_new=${nl_new%%;*}
  if [[ ! $nl_new =~ ^[0-9]+$ ]]; then
    nl_not="could not be started again: neither scontrol requeue nor sbatch works on $nl_host, the latter: $(tr '\n' ' ' <"$nl_job_dir/follow-up.err")"
    return 1
  fi
  rm -f -- "$nl_job_dir/follow-up.err"
  nl_shielded nl_write "$nl_job_dir/follows-$nl_new.json" \
    "{\"schema_version\": 1, \"job_id\": \"$nl_job\", \"attempt\": $((nl_number + 1)), \"cause\": \"$1\", \"code\": ${2:-null}}"
  nl_shielded nl_take_claim "$nl_new"
  nl_say "job $nl_new goes on where this one ends"
  nl_move_dependants "$nl_new"
}

nl_take_claim() { # nl_take_claim JOB
  ln -sfn "job-$1" "$nl_job_dir/claim.new" && mv -fT -- "$nl_job_dir/claim.new" "$nl_job_dir/claim"
}

nl_move_dependants() { # nl_move_dependants JOB: who waits for this job's success must wait for that one's
  local nl_id nl_after
  while read -r nl_id nl_after; do
    if [[ $nl_id = "$1" || ,$nl_after, != *[:?,]after*:"$nl_job"[,:\(]* ]]; then continue; fi
    nl_after=$(sed -E "s/\([a-z ]*\)//g; s/:$nl_job(,|:|\?|$)/:$1\1/g" <<<"$nl_after")
    LC_ALL=C timeout 30 scontrol update "JobId=$nl_id" "Dependency=$nl_after" || nl_say "job $nl_id still waits for job $nl_job"
  done < <(LC_ALL=C timeout 30 squeue -h -u "$(id -un)" -t PENDING -o '%i %E')
}

nl_on_signal() { # Slurm ends the job: start it again if its reason is in the policy and Slurm does not itself
  if [[ $nl_scheduler != slurm || ${#nl_resume_on[@]} = 0 || $nl_again ]] || ! nl_ask_controller; then return; fi
  if ((nl_starts > ${SLURM_RESTART_COUNT:-0})); then
    nl_requeued=1 # the next attempt asks whether it may go on
  elif [[ $nl_reason = TimeLimit ]]; then
    nl_try_again timeout
  elif [[ $nl_preempted ]]; then
    nl_try_again preempted
  fi # else somebody cancelled it
}

nl_at_end() { # nl_at_end CODE CAUSE: the processes have ended by themselves
  if [[ $nl_scheduler != slurm || ${#nl_resume_on[@]} = 0 || $nl_ended_by || $nl_again ]]; then return; fi
  local nl_ask=() nl_signalled='' # the exit code of a program that dies of the chosen signal
  if ((nl_asked)) && [[ $nl_signal ]]; then
    nl_signalled=$((128 + $(kill -l "$nl_signal")))
  fi
  case $2 in
  ended | member | memory | setup | port | workdir)
    # Asked for a checkpoint by a signal, a program may end because of it.
    if [[ $nl_signalled && ($1 = "$nl_signalled" || ($1 = 0 && $nl_told)) ]]; then
      nl_ask=(timeout)
    elif [[ $1 != 0 ]]; then
      nl_ask=(error "$1")
    fi
    ;;
  esac
  if [[ ${#nl_ask[@]} = 0 ]] || ! nl_allowed "${nl_ask[@]}"; then return; fi
  # Somebody may be cancelling the job right now: a requeue would bring it back to life.
  if nl_ask_controller && [[ $nl_state != RUNNING ]]; then return; fi
  nl_try_again "${nl_ask[@]}"
}

# --- the time limit ------------------------------------------------------------------------------------------------------

nl_watch_clock() { # checkpoint request and restart before the time limit, as the controller knows it
  # Slurm's own signal comes before the end of a heterogeneous job's first part, and another may end earlier.
  if [[ $nl_scheduler != slurm || $nl_member ]] || { [[ $nl_group != het ]] && ! nl_allowed timeout; }; then return; fi
  (
    exec 9<&-
    nl_begun=$(nl_now) nl_shown=''
    while nl_ask_controller && [[ $nl_limit && $nl_limit != "$nl_shown" ]]; do # else there is no limit
      nl_shown=$nl_limit # it may be moved while this sleeps
      nl_length=$((nl_limit - nl_begun))
      nl_early=${nl_margin:-$((nl_length / 5 < 600 ? nl_length / 5 : 600))}
      nl_late=$((nl_early / 3 < 60 ? nl_early / 3 : 60)) # what a requeue may take
      nl_rest=$((nl_limit - nl_early - $(nl_now)))
      if ((nl_rest > 0)); then
        nl_nap "$nl_rest"
        if nl_ask_controller && [[ $nl_limit != "$nl_shown" ]]; then continue; fi
        # Slurm's own signal comes up to a minute early: with a short margin much is done since.
        nl_request=$(stat -c %Y -- "$nl_job_dir/checkpoint-requested" 2>/dev/null || echo 0)
        if (($(nl_now) - nl_request > nl_early)); then kill -s USR1 $$; fi
      fi
      nl_rest=$((nl_limit - (nl_late > 1 ? nl_late : 1) - $(nl_now)))
      if ((nl_rest > 0)); then nl_nap "$nl_rest"; fi
    done
    if [[ $nl_shown ]]; then kill -s ALRM $$; fi
  ) &
  nl_clock=$!
  disown "$nl_clock" # else bash tells of its end
}

nl_time_is_up() {
  nl_caught=1
  if [[ $nl_scheduler != slurm || $nl_ended_by || $nl_again || -z $nl_pid ]]; then return; fi
  if ! nl_ask_controller || [[ -z $nl_limit ]] || ((nl_limit - $(nl_now) > 120)); then return; fi
  if [[ $nl_state != RUNNING ]] || ! nl_try_again timeout; then return; fi
  # A requeue ends the processes: Slurm's TERM, KillWait seconds, KILL. For a follow-up job this must be done here.
  if [[ -z $nl_queued ]]; then timeout 30 scancel -s TERM "$SLURM_JOB_ID"; fi # the steps, and not this script
}

# --- an attempt begins -----------------------------------------------------------------------------------------------------

nl_look_back() { # sets nl_number, and for a later attempt nl_why
  local nl_text
  if [[ $nl_member ]]; then # of a group: the job around it knows
    nl_number=$NEMO_LAUNCH_ATTEMPT
    return
  fi
  nl_number=$nl_restart
  nl_text=$(cat -- "$nl_job_dir/follows-$nl_job.json" 2>/dev/null)
  if [[ $nl_text =~ \"attempt\":\ ([0-9]+) ]]; then nl_number=$((BASH_REMATCH[1] + nl_restart)); fi
  if ((nl_number == 0)); then return; fi
  if ((nl_restart == 0)); then # a follow-up job
    if [[ $nl_text =~ \"cause\":\ \"([a-z_]+)\" ]]; then nl_why=${BASH_REMATCH[1]}; fi
    return
  fi
  local nl_before=$nl_job-$((nl_restart - 1)) nl_word
  nl_word=$(nl_last_word)
  nl_text=$(cat -- "$nl_job_dir/restart-$nl_before.json" 2>/dev/null)
  if [[ $nl_word = cancelled ]]; then # and requeued in the same moment
    nl_why=cancelled
  elif [[ $nl_text =~ \"cause\":\ \"([a-z_]+)\" ]]; then
    nl_why=${BASH_REMATCH[1]}
  elif [[ $nl_word ]]; then
    nl_why=$nl_word
  else
    nl_why=$(nl_ask_accounting "$nl_before")
    nl_text=$(cat -- "$nl_job_dir/exit-$nl_before.json" 2>/dev/null)
    if [[ -z $nl_why && -z $nl_text ]]; then
      nl_why=node_fail # nobody was left to write
    elif [[ -z $nl_why && $nl_text != *'"cause": "signal"'* ]]; then
      nl_why=by_hand # after its own end
    fi
  fi
}

nl_last_word() { # what slurmstepd wrote into the log about the end of the attempt before
  local nl_line
  nl_line=$(tail -c 262144 -- "$nl_job_dir/$nl_job.log" 2>/dev/null |
    grep -aE "^slurmstepd.*\*\*\* JOB $nl_job ON .* CANCELLED AT |^nemo_launch: attempt [0-9]+" | tail -n 1)
  case $nl_line in
  *' DUE TO PREEMPTION'*) echo preempted ;;
  *' DUE TO TIME LIMIT'*) echo timeout ;;
  *' DUE TO NODE FAIL'*) echo node_fail ;;
  *' DUE TO JOB REQUEUE'*) echo by_hand ;;
  *' DUE TO '* | nemo_launch:* | '') ;;
  *) echo cancelled ;;
  esac
}

nl_ask_accounting() { # nl_ask_accounting ATTEMPT: what accounting says of the run before; nothing where there is none
  local nl_state nl_end nl_last='' nl_since=0
  if [[ $(cat -- "$nl_job_dir/started-$1.json" 2>/dev/null) =~ \"started\":\ ([0-9]+) ]]; then nl_since=${BASH_REMATCH[1]}; fi
  while IFS='|' read -r nl_state nl_end; do
    if [[ $nl_end =~ ^[0-9]+$ ]] && ((nl_end >= nl_since)); then nl_last=$nl_state; fi
  done < <(LC_ALL=C SLURM_TIME_FORMAT=%s timeout 30 sacct -D -X -n -P -j "$SLURM_JOB_ID" -o State,End 2>/dev/null)
  case $nl_last in
  PREEMPTED) echo preempted ;;
  TIMEOUT) echo timeout ;;
  NODE_FAIL | BOOT_FAIL) echo node_fail ;;
  REQUEUED) echo by_hand ;;
  CANCELLED*) echo cancelled ;;
  esac
}

nl_begin_again() { # go on, or stop and say why
  if ((nl_number == 0)); then return; fi
  if [[ $nl_member ]]; then # of a group: the job around it has decided
    nl_find_checkpoint
    return
  fi
  local nl_words
  nl_words=$(nl_in_words "$nl_why")
  if [[ $nl_why = cancelled ]]; then
    : >>"$nl_job_dir/cancelled"
    timeout 30 scancel "$SLURM_JOB_ID" # so that Slurm, too, says so
    nl_end 143 cancelled "cancelled while it was being started again"
  elif [[ -z $nl_why ]]; then # Slurm did it for one of these
    if ! nl_allowed preempted && ! nl_allowed node_fail; then nl_stop "$nl_words"; fi
  elif [[ $nl_why != by_hand && $nl_why != error ]] && ! nl_allowed "$nl_why"; then
    nl_stop "$nl_words"
  elif [[ $nl_why != by_hand ]] && ((nl_number > nl_max_restarts)); then
    nl_end 1 policy "not started again after $nl_words: it has been $nl_max_restarts times, which is the most (max_restarts)"
  fi
  if [[ ${#nl_resume_on[@]} = 0 ]]; then nl_max_restarts=''; fi
  nl_say "attempt $((nl_number + 1))${nl_max_restarts:+ of at most $((nl_max_restarts + 1))}, because $nl_words"
  nl_find_checkpoint
}

nl_find_checkpoint() {
  if [[ -e $nl_job_dir/checkpoints/latest ]]; then
    export NEMO_LAUNCH_RESTORE_FROM=$nl_job_dir/checkpoints/latest
    nl_say "the latest checkpoint is $NEMO_LAUNCH_RESTORE_FROM -> $(readlink -- "$NEMO_LAUNCH_RESTORE_FROM")"
  fi
}

nl_stop() { # nl_stop WORDS
  local nl_policy=${nl_resume_on[*]:-never}
  nl_end 1 policy "not started again after $1: resume_on is ${nl_policy// /,}"
}
