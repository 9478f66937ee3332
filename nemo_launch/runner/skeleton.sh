# shellcheck shell=bash disable=SC2034,SC2154,SC2317  # the nl_ values are assigned above, restarts.sh uses others; traps call functions
# Runs once, on the first node. Needs bash 4.2 and no Python. Every variable and function begins with nl_: other names
# may be the user's environment, which must reach the processes as it is.
#
# Signals: USR1 = the end is near, ask for a checkpoint. TERM, INT, HUP = end. A supervisor on this machine sends them
# to this process alone; from here TERM goes on once, to the processes' own group.

shopt -u patsub_replacement 2>/dev/null # bash 5.2: & in a replacement would mean the match
export NEMO_LAUNCH_JOB_ID=${SLURM_JOB_ID:-${NEMO_LAUNCH_JOB_ID:-$$}}
if [[ $nl_scheduler = slurm ]]; then nl_restart=${SLURM_RESTART_COUNT:-0}; else nl_restart=${NEMO_LAUNCH_ATTEMPT:-0}; fi
nl_job=$NEMO_LAUNCH_JOB_ID
nl_attempt=$nl_job-$nl_restart
nl_ranks=$nl_job_dir/ranks-$nl_attempt
nl_host=${SLURMD_NODENAME:-$(uname -n)}
nl_host=${nl_host%%.*}
nl_world=$((nl_nodes * nl_ntasks_per_node))
if [[ $nl_launcher = none ]]; then nl_processes=1; else nl_processes=$nl_world; fi
if [[ $nl_launcher = torchrun || $nl_launcher = ft ]]; then nl_agent=1; else nl_agent=''; fi # one on each node
if [[ " ${nl_srun_args[*]}" = *' --container-image'* ]]; then nl_contained=1; else nl_contained=''; fi
nl_path=$PATH # of the tools here
nl_library_path='' nl_pid='' nl_passed='' nl_caught='' nl_ended_by='' nl_started='' nl_log=$nl_job_dir/$NEMO_LAUNCH_JOB_ID.log
nl_told='' nl_log_at=0
if [[ $nl_restart != 0 ]]; then nl_log_at=$(stat -c %s -- "$nl_log" 2>/dev/null || echo 0); fi # before are earlier attempts

nl_say() { printf 'nemo_launch: %s\n' "$*"; }

nl_json() { # nl_json TEXT: as a JSON string
  local LC_ALL=C nl_text=$1 nl_i nl_from nl_to
  nl_text=${nl_text//\\/\\\\}
  nl_text=${nl_text//\"/\\\"}
  for ((nl_i = 1; nl_i < 32; nl_i++)); do
    printf -v nl_to '\\u%04x' "$nl_i"
    printf -v nl_from '%b' "\\x${nl_to#'\u00'}"
    nl_text=${nl_text//"$nl_from"/"$nl_to"}
  done
  printf '"%s"' "$nl_text"
}

nl_write() { # nl_write FILE TEXT: whole or not at all
  if ! { printf '%s\n' "$2" >"$1.$$.tmp" && mv -f -- "$1.$$.tmp" "$1"; }; then nl_say "cannot write $1"; fi
}

nl_facts() { # fields that both records have
  printf '"schema_version": 1, "job_id": %s, "restart": %d, "node": %s, "nodes": %s, "started": %d' \
    "$(nl_json "$NEMO_LAUNCH_JOB_ID")" "$nl_restart" "$(nl_json "$nl_host")" \
    "$(nl_json "${SLURM_JOB_NODELIST:-$nl_host}")" "$nl_started"
}

nl_memory() { # what the job may use of it, and what helps where that is not enough
  local nl_word
  for nl_word in "${SLURM_MEM_PER_NODE:-0} on each node; ask for more (mem)" \
    "${SLURM_MEM_PER_CPU:-0} for each of ${SLURM_CPUS_ON_NODE:-its} processors; ask for more (mem)" \
    "${SLURM_MEM_PER_GPU:-0} for each GPU; ask for more (mem_per_gpu)"; do
    if [[ $nl_word != 0\ * ]]; then
      printf 'it may use %s MB %s' "${nl_word%% *}" "${nl_word#* }"
      return
    fi
  done
  printf 'all that its nodes have is not enough; use more nodes, or fewer processes on each'
}

nl_explain_memory() { # the kernel ended a process of the step because the job may not use more memory
  local nl_said nl_nodes_of_it
  nl_said=$(tail -c +$((nl_log_at + 1)) -- "$nl_log" 2>/dev/null | tail -c 262144 |
    grep -aE "^slurmstepd[^:]*: error: Detected [0-9]+ oom[-_]kill event.* StepId=${SLURM_JOB_ID}[.+]|^srun: error: [^ :]+: tasks? [0-9,-]+: Out Of Memory")
  if [[ -z $nl_said ]]; then return; fi
  nl_nodes_of_it=$(sed -nE 's/^srun: error: ([^ :]+): task.*/\1/p' <<<"$nl_said" | sort -u | tr '\n' ' ')
  nl_cause=memory
  nl_message="ran out of memory${nl_nodes_of_it:+ on ${nl_nodes_of_it% }}: $(nl_memory)"
}

nl_count_ok() { # ranks that ended well
  local nl_mark nl_count=0
  for nl_mark in "$nl_ranks"/rank-*.ok; do
    if [[ -e $nl_mark ]]; then nl_count=$((nl_count + 1)); fi
  done
  printf '%d' "$nl_count"
}

nl_end() { # nl_end CODE CAUSE [MESSAGE]: the only way out
  local nl_followed=0 nl_message=${3:-} nl_told_why=''
  trap - EXIT
  PATH=$nl_path:$PATH # setup may have left another
  nl_at_end "$1" "$2"
  trap '' TERM INT HUP USR1 ALRM # Slurm signals mv below as well
  if [[ $nl_clock ]]; then kill -s KILL "$nl_clock" 2>/dev/null; fi
  if [[ $nl_not ]]; then
    if [[ -z $nl_message ]]; then nl_message=$nl_not; fi
    nl_say "$nl_not"
  fi
  if [[ ${3:-} && ! -e $nl_ranks/problem ]]; then nl_say "$3"; fi # a problem was told by who found it
  if [[ -e $nl_ranks/first-failure.json ]]; then
    nl_followed=$((nl_processes - 1 - $(nl_count_ok)))
  fi
  if [[ $nl_ended_by && $nl_scheduler = slurm ]]; then nl_told_why=$(nl_last_word); fi # Slurm may have forgotten it later
  nl_write "$nl_job_dir/exit-$nl_attempt.json" "{$(nl_facts), \"exit_code\": $1, \"cause\": \"$2\", \"signal\": \
$(nl_json "$nl_ended_by"), \"word\": \"$nl_told_why\", \"message\": $(nl_json "$nl_message"), \"followed\": $nl_followed, \"ended\": $(printf '%(%s)T' -1)}"
  # Without a file of secrets the next attempt could not start. Where Slurm decides, the launcher removes it later.
  if [[ $nl_secrets_file && $2 != duplicate && -z $nl_again && -z $nl_requeued ]]; then rm -f -- "$nl_secrets_file"; fi
  if [[ $nl_queued && -z $nl_ended_by ]]; then # Slurm is about to end this script
    trap - TERM
    nl_nap 30
  fi
  # Here nobody but this code says that tasks which depend on this one must not start.
  if [[ $1 = 0 && $nl_ended_by && $nl_scheduler = local ]]; then exit 143; fi
  exit "$1"
}

nl_ask_checkpoint() {
  nl_caught=1
  if [[ $nl_member ]]; then return; fi # its processes got the job's signal, too
  nl_asked=1
  : >>"$nl_job_dir/checkpoint-requested"
  nl_say "the end of this run is near: checkpoint requested${nl_signal:+, SIG$nl_signal sent to the processes}"
  # On this machine the supervisor signals every process itself: torchrun's are in sessions of their own.
  if [[ -z $nl_signal || -z $nl_pid || $nl_scheduler != slurm ]]; then return; fi
  case $nl_signal in
  TERM | INT | QUIT) scancel -s "$nl_signal" "$SLURM_JOB_ID" ;; # srun itself would kill its processes
  *) kill -s "$nl_signal" "$nl_pid" ;;
  esac
}

nl_ask_end() { # nl_ask_end SIGNAL
  nl_caught=1
  if [[ $nl_ended_by ]]; then
    if [[ $nl_member ]]; then nl_pass_end; fi
    return
  fi
  nl_ended_by=SIG$1
  nl_say "got SIG$1: ending"
  nl_pass_end
  nl_on_signal
}

nl_pass_end() { # once: a program that saves on TERM may die of a second one. Slurm itself signals every process.
  local nl_other
  if [[ $nl_pid && -z $nl_passed && $nl_scheduler = local ]]; then
    nl_passed=1
    kill -s TERM -- "-$nl_pid" 2>/dev/null
    for nl_other in "$nl_ranks"/nsys-*.group; do # what nsys has put into groups of its own
      if [[ -r $nl_other ]]; then kill -s TERM -- "-$(<"$nl_other")" 2>/dev/null; fi
    done
  elif [[ $nl_pid && $nl_member && $nl_scheduler = local ]]; then # a second request is the last one
    kill -s KILL -- "-$nl_pid" 2>/dev/null
  elif [[ $nl_pid && $nl_member && -e $nl_job_dir/end-$nl_attempt ]]; then
    nl_end_step
  fi
}

nl_end_step() { # srun itself would kill its step: the first time its processes are told, so that they can save
  local nl_step nl_id=SLURM_JOB_ID${nl_het_group:+_HET_GROUP_$nl_het_group}
  nl_step=$(cat -- "$nl_ranks/step" 2>/dev/null)
  if [[ -z $nl_passed && $nl_step ]] && timeout 30 scancel -s TERM "${!nl_id}.$nl_step"; then
    nl_passed=1
  else
    kill -s TERM "$nl_pid" 2>/dev/null
  fi
}

nl_traps() {
  trap nl_ask_checkpoint USR1
  trap nl_time_is_up ALRM
  trap 'nl_ask_end TERM' TERM
  trap 'nl_ask_end INT' INT
  trap 'nl_ask_end HUP' HUP
}

nl_node_cpus() { # processors that every node of the job has: the least in a list such as 16(x2),8
  local nl_item nl_least=''
  for nl_item in ${SLURM_JOB_CPUS_PER_NODE//,/ }; do
    nl_item=${nl_item%%(*}
    if [[ -z $nl_least || $nl_item -lt $nl_least ]]; then nl_least=$nl_item; fi
  done
  printf '%s' "${nl_least:-1}"
}

nl_lease_port() { # nl_lease_port FIRST: sets nl_port; it is ours as long as descriptor 9 is open
  local nl_dir='' nl_hex
  for nl_dir in /var/tmp /run/lock /dev/shm /tmp; do # /tmp may be private to each job
    nl_dir=$nl_dir/nemo-launch-ports
    if [[ ! -d $nl_dir ]]; then mkdir -m 1777 -- "$nl_dir" 2>/dev/null; fi
    if [[ -w $nl_dir ]]; then break; fi
  done
  for ((nl_port = $1; nl_port < $1 + 500 && nl_port < 65536; nl_port++)); do
    exec 9<&-
    # Opened for reading: nobody may open another's file for writing there (fs.protected_regular).
    (umask 022 && set -C && : >"$nl_dir/$nl_port") 2>/dev/null
    if command -v flock >/dev/null && [[ -f $nl_dir/$nl_port ]] && { exec 9<"$nl_dir/$nl_port"; } 2>/dev/null; then
      if ! flock -n 9; then continue; fi
    fi # else no lease is to be had, and only what listens is seen
    printf -v nl_hex ':%04X 0*:0000 0A ' "$nl_port"
    if ! grep -qs "$nl_hex" /proc/net/tcp /proc/net/tcp6; then return; fi
  done
  nl_end 1 port "no free port between $1 and $nl_port on $nl_host. Set master_port to another one."
}

nl_where() { # nl_where PROGRAM: its path, as the processes would find it
  local nl_word PATH=$PATH
  if [[ -z $nl_contained ]]; then
    for nl_word in "${nl_env[@]}"; do
      if [[ $nl_word = PATH=* ]]; then PATH=${nl_word#PATH=}; fi
    done
  fi
  type -P -- "$1"
}

nl_for_setup() { # what the processes get, as far as it does not change how this shell reads
  local nl_word
  for nl_word in "${nl_env[@]}"; do
    case ${nl_word%%=*} in PATH | LD_* | BASH_ENV | ENV) export "${nl_word?}" ;; esac
  done
}

nl_after_setup() { # … and what setup made of it goes to the processes
  local nl_word nl_name nl_kept=()
  for nl_word in "${nl_env[@]}"; do
    nl_name=${nl_word%%=*}
    case $nl_name in
    PATH) ;;
    LD_* | BASH_ENV | ENV)
      if [[ ${!nl_name+set} ]]; then nl_kept+=("$nl_name=${!nl_name}"); fi
      unset -v "$nl_name"
      ;;
    *) nl_kept+=("$nl_word") ;;
    esac
  done
  if [[ $PATH != "$nl_path" ]]; then
    nl_kept+=("PATH=$PATH")
    PATH=$nl_path:$PATH
  fi
  nl_env=("${nl_kept[@]}")
}

nl_check_nodes() { # a container would only say that a mount failed: every node looks for its sources before
  # shellcheck disable=SC2016
  local nl_looks='nl_node=${SLURMD_NODENAME:-$(uname -n)}; nl_i=$1; shift
    while [ "$nl_i" -gt 0 ]; do
      mkdir -p -- "$1" || printf "nemo_launch: cannot make %s on %s\n" "$1" "$nl_node" >&2
      shift; nl_i=$((nl_i - 1))
    done
    for nl_path; do [ -e "$nl_path" ] || printf "%s %s\n" "${nl_node%%.*}" "$nl_path"; done'
  local nl_missing nl_node nl_lost nl_first='' nl_nodes_of_first='' nl_more=0
  nl_missing=$(srun ${nl_het_group:+--het-group=$nl_het_group} --export=ALL --overlap --mpi=none "--nodes=$nl_nodes" "--ntasks=$nl_nodes" --ntasks-per-node=1 \
    --cpus-per-task=1 sh -c "$nl_looks" sh "${#nl_folders[@]}" "${nl_folders[@]}" "${nl_mounts[@]}" </dev/null)
  if [[ -z $nl_missing || $nl_ended_by ]]; then return; fi
  while read -r nl_node nl_lost; do
    if [[ -z $nl_first ]]; then nl_first=$nl_lost; fi
    if [[ $nl_lost = "$nl_first" ]]; then nl_nodes_of_first+=${nl_nodes_of_first:+, }$nl_node; else nl_more=$((nl_more + 1)); fi
  done < <(sort <<<"$nl_missing")
  if [[ $nl_more != 0 ]]; then
    nl_say "missing, as node and path:"$'\n'"$nl_missing"
    nl_nodes_of_first+=" (and $nl_more more, see the log)"
  fi
  nl_end 78 mount "$nl_first is missing on $nl_nodes_of_first. The container needs it on every node of the job."
}

nl_explain_container() { # where none of the processes failed by itself: what pyxis said, if it did
  local nl_said nl_what nl_where='' nl_fix=''
  nl_said=$(tail -n 400 -- "$nl_log" 2>/dev/null | grep -aE '^slurmstepd[^:]*: error: (pyxis: |execve\(\): )|^srun: error: ')
  if [[ $nl_said =~ srun:\ error:\ ([^:\ ]+):\ task ]]; then nl_where=" on ${BASH_REMATCH[1]}"; fi
  nl_what=$(grep -aE '\[ERROR\]|pyxis: couldn.t chdir|execve\(\): ' <<<"$nl_said" | tail -n 1)
  if [[ -z $nl_what ]]; then nl_what=$(grep -a 'pyxis: ' <<<"$nl_said" | tail -n 1); fi
  if [[ -z $nl_what ]]; then return; fi
  nl_what=${nl_what##*error: }
  nl_what=${nl_what#pyxis:}
  nl_what=${nl_what##*\[ERROR\] }
  case $nl_what in
  *enroot-mount*) nl_fix='Look at the mounts (container_mounts).' ;;
  *'such file'*.sq*) nl_fix='The image must lie where every node sees it.' ;;
  *'nvalid image'*) nl_fix='It is no image, or half of one: make it again with run.py import-image.' ;;
  *'No space left'*) nl_fix="The nodes' own disk is full: with run.py import-image there is one file for all of them." ;;
  *chdir*) nl_fix='Set container_workdir to a folder of the image or of a mount.' ;;
  *execve*) nl_fix='The image needs /bin/sh, env and, for Python, a Python.' ;;
  *) nl_fix="Are the image's name and tag right (docker://REGISTRY#IMAGE:TAG), and may the nodes read it? With run.py \
import-image it becomes a file, by your credentials." ;;
  esac
  nl_cause=container
  nl_message="the container did not start$nl_where: ${nl_what# }. $nl_fix"
}

nl_use_fabric() { # the network between the nodes: of those in nl_fabric the first that this node has
  local nl_word nl_value nl_used='' nl_name='' nl_given=() nl_sees=()
  for nl_word in "${nl_fabric[@]}"; do
    nl_value=${nl_word#*=}
    if [[ $nl_word = directory=* ]]; then
      if [[ $nl_used ]]; then break; fi
      nl_sees+=("$nl_value")
      if [[ -d $nl_value ]]; then nl_used=$nl_value; fi
    elif [[ $nl_used ]]; then
      nl_value=${nl_value//%j/$NEMO_LAUNCH_JOB_ID}
      case $nl_word in
      name=*) nl_name=$nl_value ;;
      source_env=*) nl_given+=("$nl_value") ;;
      source=*) nl_source "$nl_value" "${nl_given[@]}" ;;
      env=*) nl_set "$nl_value" ;;
      mount=*) if [[ $nl_contained && -e $nl_value ]]; then nl_mount "$nl_value"; fi ;;
      library_path=*) if [[ -d $nl_value ]]; then nl_library_path=$nl_value; fi ;;
      esac
    fi
  done
  if [[ $nl_used ]]; then
    nl_say "network between the nodes: $nl_name"
  else
    nl_say "no network of this cluster type on $nl_host (looked for ${nl_sees[*]}): NCCL takes what it finds"
  fi
}

nl_set() { # nl_set NAME=VALUE, unless the user did; in a container the image's own would win if it were not listed
  local nl_var=${1%%=*} nl_i
  if [[ " ${nl_user_env[*]} " = *" $nl_var "* ]]; then return; fi
  export "${1?}"
  if [[ -z $nl_contained ]]; then return; fi
  for nl_i in "${!nl_srun_args[@]}"; do
    if [[ ${nl_srun_args[nl_i]} = --container-env=* ]]; then
      nl_srun_args[nl_i]+=,$nl_var
      return
    fi
  done
  nl_env+=("$1") # the pyxis of this site may not know the option, or there was nothing to list
}

nl_mount() { # nl_mount PATH: at the same place in the container, unless something is mounted there already
  local nl_i nl_one nl_place nl_new=$1:$1 nl_old=() nl_all=''
  nl_mounts+=("$1") # every node must have it
  for nl_i in "${!nl_srun_args[@]}"; do
    if [[ ${nl_srun_args[nl_i]} != --container-mounts=* ]]; then continue; fi
    IFS=, read -r -a nl_old <<<"${nl_srun_args[nl_i]#*=}"
    for nl_one in "${nl_old[@]}"; do # a later mount hides those below it: before them, and after what it lies in
      nl_place=${nl_one#*:}
      nl_place=${nl_place%%:*}
      if [[ ${nl_place%/} = "$1" ]]; then nl_new=''; fi
      if [[ $nl_new && $nl_place = "$1"/* ]]; then
        nl_all+=,$nl_new
        nl_new=''
      fi
      nl_all+=,$nl_one
    done
    nl_all+=${nl_new:+,$nl_new}
    nl_srun_args[nl_i]=--container-mounts=${nl_all#,}
    return
  done
  nl_srun_args+=("--container-mounts=$1:$1")
}

nl_source() { # nl_source FILE [NAME=VALUE]...: the variables that the machine's script sets, and nothing else of it
  local nl_entry nl_var nl_seen=''
  while IFS= read -r -d '' nl_entry; do
    nl_var=${nl_entry%%=*}
    nl_seen=1
    if [[ " ${*:2} " = *" $nl_entry "* ]]; then continue; fi # its own way in
    case $nl_var in
    _ | SHLVL | PWD | OLDPWD | PATH | LD_* | BASH* | ENV | IFS | nl_* | SLURM* | NEMO_LAUNCH_* | *[!A-Za-z0-9_]*) ;;
    *) if [[ ${!nl_var-} != "${nl_entry#*=}" || -z ${!nl_var+set} ]]; then nl_set "$nl_entry"; fi ;;
    esac
  done < <(
    if [[ $# -gt 1 ]]; then export "${@:2}"; fi
    trap - EXIT USR1 TERM INT HUP
    # shellcheck source=/dev/null
    . "$1" >&2 </dev/null
    PATH=$nl_path env -0 # the script may have left another
  )
  if [[ -z $nl_seen ]]; then nl_say "cannot use $1 on $nl_host: it ended the shell that read it"; fi
}

nl_last_round() { # of those of ft_launcher, which starts the ranks again: what came before the last one is history
  local nl_round
  nl_round=$(cat -- "$nl_ranks/round" 2>/dev/null)
  if [[ -z $nl_round ]]; then return; fi
  mv -f -- "$nl_ranks/$nl_round"/rank-* "$nl_ranks" 2>/dev/null
  if [[ $nl_rc != 0 ]]; then mv -f -- "$nl_ranks/$nl_round/first-failure.json" "$nl_ranks" 2>/dev/null; fi
}

nl_use_nsys() { # what stands before the node's agent, and before the program of each rank
  local nl_words nl_options=("$nl_signal" "${nl_nsys[@]}" --) nl_which
  if [[ ${#nl_nsys[@]} = 0 ]]; then return; fi
  nl_words=(sh "$nl_job_dir/runner/nsys.sh" "$nl_ranks" "${nl_nsys_output:-$nl_job_dir/}" "profile-$nl_attempt")
  if [[ ${#nl_nsys_ranks[@]} != 0 ]]; then
    printf -v nl_which '%s,' "${nl_nsys_ranks[@]}"
    if [[ $nl_agent ]]; then # a node without nsys is told before its agent meets the others
      nl_nsys_agent=("${nl_words[@]}" none "${nl_options[@]}")
    fi
    nl_nsys_program=("${nl_words[@]}" "${nl_which%,}" "${nl_options[@]}")
  elif [[ $nl_agent ]]; then
    nl_nsys_agent=("${nl_words[@]}" all "${nl_options[@]}")
  elif [[ $nl_launcher = srun ]]; then
    nl_nsys_program=("${nl_words[@]}" first "${nl_options[@]}")
  else
    nl_nsys_program=("${nl_words[@]}" all "${nl_options[@]}")
  fi
}

nl_start() { # runs the processes to their end: sets nl_rc
  local nl_rank=(--launcher "$nl_launcher" --ranks "$nl_ranks") nl_launch=() nl_run nl_cpus nl_dir=$nl_work_dir
  local nl_words=("${nl_env[@]}")
  if [[ $nl_library_path && " ${nl_user_env[*]} " != *' LD_LIBRARY_PATH '* ]]; then
    nl_words=("${nl_env[@]/#LD_LIBRARY_PATH=/LD_LIBRARY_PATH=$nl_library_path:}")
  fi
  if [[ $nl_contained ]]; then nl_dir=.; fi # pyxis sets it, and it may have another name inside
  nl_rank+=(--work-dir "$nl_dir")
  local nl_nsys_agent=() nl_nsys_program=()
  nl_use_nsys
  nl_run=("${nl_interpreter[@]}" "${nl_program[@]}")
  if [[ ${#nl_interpreter[@]} = 0 ]]; then
    if [[ $nl_language = python ]]; then
      nl_run=("$nl_python" "${nl_run[@]}")
    elif [[ $nl_agent || ${#nl_nsys_program[@]} != 0 ]]; then
      if [[ $nl_contained ]]; then # which of them the image has is known in it
        # shellcheck disable=SC2016
        nl_run=(sh -c 'if command -v bash >/dev/null; then exec bash "$@"; else exec sh "$@"; fi' sh "${nl_run[@]}")
      else nl_run=("$(nl_where bash || type -P bash)" "${nl_run[@]}"); fi
    fi # else rank.sh looks for a shell where the program runs
  fi
  nl_run=("${nl_nsys_program[@]}" "${nl_run[@]}")

  if [[ $nl_scheduler = slurm ]]; then
    nl_cpus=$(nl_node_cpus)
    nl_launch=(srun ${nl_het_group:+--het-group=$nl_het_group} --export=ALL --kill-on-bad-exit=1 --wait=0)
    case $nl_launcher in
    torchrun | ft) nl_launch+=("--nodes=$nl_nodes" "--ntasks=$nl_nodes" --ntasks-per-node=1 "--cpus-per-task=$nl_cpus") ;;
    srun)
      nl_launch+=("--nodes=$nl_nodes" "--ntasks=$nl_world" "--ntasks-per-node=$nl_ntasks_per_node")
      nl_launch+=("--cpus-per-task=${nl_cpus_per_task:-$((nl_cpus < nl_ntasks_per_node ? 1 : nl_cpus / nl_ntasks_per_node))}")
      ;;
    # --overlap: the program may well be a script that calls srun itself
    none) nl_launch+=(--nodes=1 --relative=0 --ntasks=1 "--cpus-per-task=$nl_cpus" --overlap) ;;
    esac
    if [[ $nl_gpus_per_node ]]; then nl_launch+=("--gpus-per-node=$nl_gpus_per_node"); fi
    nl_launch+=("${nl_srun_args[@]}")
    if [[ $nl_container_name ]]; then nl_launch+=("--container-name=$nl_container_name-$NEMO_LAUNCH_JOB_ID"); fi
  fi
  if [[ $nl_contained && ($nl_language = python || $nl_agent) ]]; then
    nl_launch+=(sh "$nl_job_dir/runner/python.sh" "$nl_ranks" "$nl_python" "${PYTHONPATH:-}")
  fi
  if [[ $nl_library_path ]]; then # what the image or the node has comes after it
    # shellcheck disable=SC2016 # the other shell expands it
    nl_launch+=(sh -c 'export LD_LIBRARY_PATH="$0${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"; exec "$@"' "$nl_library_path")
  fi
  if [[ ($nl_language = python || $nl_agent) && ${#nl_words[@]} != 0 ]]; then
    nl_launch+=(env "${nl_words[@]}")
  fi
  if [[ $nl_agent ]]; then
    nl_launch+=("${nl_nsys_agent[@]}" "$nl_python" "$nl_job_dir/runner/node.py" --nodes "$nl_nodes" --nproc "$nl_ntasks_per_node"
      --ranks "$nl_ranks" --work-dir "$nl_dir" ${nl_signal:+--ignore "$nl_signal"} ${nl_standalone:+--standalone} "${nl_ft[@]/#/--ft=}" --)
  fi
  if [[ $nl_language = python || $nl_agent ]]; then
    # -I, -S: the user's PYTHONPATH must not stand in for modules that the runner itself imports
    nl_launch+=("$nl_python" -IBS "$nl_job_dir/runner/rank.py" "${nl_rank[@]}" -- "${nl_run[@]}")
  else
    nl_launch+=(sh "$nl_job_dir/runner/rank.sh" "$nl_launcher" "$nl_ranks" "$nl_dir"
      "$((${#nl_interpreter[@]} + ${#nl_nsys_program[@]}))"
      "${#nl_words[@]}" "${nl_words[@]}" "${nl_run[@]}")
  fi

  # Locally a group of its own, so that one signal reaches the processes and not this shell. Descriptor 9 is the lease.
  if [[ $nl_scheduler = local ]]; then set -m; fi
  "${nl_launch[@]}" </dev/null 9<&- &
  nl_pid=$!
  set +m
  if [[ $nl_ended_by ]]; then nl_pass_end; fi # it came in between
  while :; do
    nl_caught=''
    wait "$nl_pid"
    nl_rc=$?
    if [[ -z $nl_caught ]]; then break; fi # else the signal ended wait, not the process
  done
  nl_pid=''
  nl_last_round
}

# --- the way through -------------------------------------------------------------------------------------------------

printf -v nl_started '%(%s)T' -1
nl_traps

# Newer versions of Slurm make the folder of the log where it is missing: an empty one is not that of the launcher.
if [[ -d $nl_job_dir && ! -e $nl_job_dir/job.sh ]]; then
  nl_end 73 claim "$nl_host does not see what the launcher wrote into $nl_job_dir. The experiment directory must be on a file system that every node shares with the launcher (see job_dir)."
fi

# Symlink creation is atomic and carries its content: of two jobs for one submission exactly one goes on.
if [[ -z $nl_member ]] && ! ln -sn "job-$NEMO_LAUNCH_JOB_ID" "$nl_job_dir/claim" 2>/dev/null; then
  nl_owner=$(readlink "$nl_job_dir/claim")
  if [[ -z $nl_owner ]]; then
    nl_end 73 claim "cannot write to $nl_job_dir on $nl_host. The experiment directory must be writable on every node (see job_dir)."
  elif [[ $(cat -- "$nl_job_dir/follows-$nl_job.json" 2>/dev/null) = *"\"job_id\": \"${nl_owner#job-}\""* ]]; then
    nl_take_claim "$nl_job"
  elif [[ $nl_owner != "job-$NEMO_LAUNCH_JOB_ID" ]]; then
    nl_end 75 duplicate "duplicate of ${nl_owner#job-}: this submission already runs as that job; nothing was started"
  fi
fi
if [[ -e $nl_job_dir/cancelled ]]; then nl_end 143 cancelled "cancelled before it started"; fi
rm -f -- "$nl_job_dir/checkpoint-requested" # of an earlier attempt
nl_room=''
if [[ $nl_scheduler = slurm ]]; then nl_room=", \"memory\": \"$(nl_memory)\""; fi # nobody may be left to tell later
nl_write "$nl_job_dir/started-$nl_attempt.json" "{$(nl_facts), \"log_from\": $nl_log_at$nl_room}"
mkdir -p -- "$nl_ranks"
nl_look_back
nl_begin_again
nl_watch_clock

if ! cd -- "$nl_work_dir" 2>/dev/null; then
  nl_end 78 workdir "work dir $nl_work_dir is missing or closed on $nl_host. It must exist on every node; see --work-dir."
fi

export NEMO_LAUNCH_EXPERIMENT=$nl_experiment NEMO_LAUNCH_TASK=$nl_task NEMO_LAUNCH_TASK_DIR=$nl_job_dir
export NEMO_LAUNCH_ATTEMPT=$nl_number NEMO_LAUNCH_CHECKPOINT_REQUESTED=$nl_job_dir/checkpoint-requested
if [[ $nl_member ]]; then export NEMO_LAUNCH_CHECKPOINT_REQUESTED=${nl_job_dir%/*}/checkpoint-requested; fi
if [[ $nl_group ]]; then export NEMO_LAUNCH_NODELIST=${SLURM_JOB_NODELIST:-}; fi
if [[ $nl_secrets_file ]]; then
  if [[ ! -r $nl_secrets_file ]]; then
    nl_end 78 secrets "$nl_secrets_file is gone, and with it the secrets of this job. Launch it again."
  fi
  while IFS= read -r -d '' nl_entry; do export "${nl_entry?}"; done <"$nl_secrets_file"
fi
for nl_dir in "${NEMO_LAUNCH_LOG_DIR:-}" "${HF_HOME:-}" "${TORCH_HOME:-}"; do
  if [[ $nl_dir = /* && -z $nl_contained ]]; then mkdir -p -- "$nl_dir" 2>/dev/null || nl_say "cannot make $nl_dir on $nl_host"; fi
done
for ((nl_i = ${#nl_pythonpath[@]} - 1; nl_i >= 0; nl_i--)); do
  export PYTHONPATH=${nl_pythonpath[nl_i]}${PYTHONPATH:+:$PYTHONPATH}
done
export PYTHONUNBUFFERED=${PYTHONUNBUFFERED-1}

if [[ ${#nl_fabric[@]} != 0 ]]; then nl_use_fabric; fi
if [[ $nl_setup ]]; then
  trap 'nl_rc=$?; nl_end $((nl_rc ? nl_rc : 1)) setup "setup left the batch script with exit code $nl_rc on $nl_host"' EXIT
  if [[ -z $nl_contained ]]; then
    nl_for_setup
    # shellcheck source=/dev/null
    if [[ " ${nl_env[*]}" = *' BASH_ENV='* && -r $BASH_ENV ]]; then . "$BASH_ENV"; fi
  fi
  eval "$nl_setup"
  nl_rc=$?
  trap - EXIT # what the text may have changed goes back
  nl_traps
  set +eu +o posix
  IFS=$' \t\n'
  if [[ -z $nl_contained ]]; then nl_after_setup; fi
  if [[ $nl_rc != 0 && -z $nl_ended_by ]]; then nl_end "$nl_rc" setup "setup failed with exit code $nl_rc on $nl_host"; fi
fi
if [[ ($nl_language = python || $nl_agent) && -z $nl_contained ]] && ! nl_where "$nl_python" >/dev/null; then
  nl_end 127 python "there is no $nl_python on $nl_host. Set python to an interpreter that every node has."
fi

if [[ $nl_scheduler = local ]]; then nl_master=localhost; else nl_master=$nl_host; fi # a laptop's name may not resolve
export MASTER_ADDR=${MASTER_ADDR:-$nl_master} WORLD_SIZE=${WORLD_SIZE:-$nl_world}
nl_standalone='' nl_port=''
if [[ ${MASTER_PORT:-} ]]; then
  : # the user's choice
elif [[ $nl_agent && $nl_nodes = 1 ]]; then
  nl_standalone=1 # torchrun finds a free port itself
elif [[ $nl_processes = 1 ]]; then
  export MASTER_PORT=$nl_master_port
else
  nl_lease_port "$nl_master_port"
  if [[ $nl_port != "$nl_master_port" ]]; then nl_say "port $nl_master_port is taken on $nl_host: using $nl_port"; fi
  export MASTER_PORT=$nl_port
fi
# srun gets its numbers as options; newer versions die of contradictions with these.
unset SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK

if [[ ${#nl_mounts[@]} != 0 ]]; then nl_check_nodes; fi
if [[ $nl_ended_by ]]; then nl_end 143 signal "ended by $nl_ended_by before the processes started"; fi
nl_start
if [[ $nl_port && $nl_rc != 0 && -z $nl_ended_by && -e $nl_ranks/port-taken ]]; then # between lease and start
  nl_lease_port $((nl_port + 1))
  nl_say "port $MASTER_PORT was taken on $nl_host meanwhile: starting again with $nl_port"
  export MASTER_PORT=$nl_port
  rm -rf -- "${nl_ranks:?}"/*
  nl_start
fi

nl_cause=ended nl_message=''
# A rank was told to end and did so with 0: Slurm signals step after step, and this script may be about to hear it.
if [[ $nl_rc = 0 && $nl_scheduler = slurm ]] && cat -- "$nl_ranks"/rank-*.ok 2>/dev/null | grep -q .; then
  nl_told=1
  if [[ -z $nl_ended_by ]]; then sleep 1; fi
fi
# srun ends with 0 when the controller has given up one of its nodes.
if [[ $nl_rc = 0 && -z $nl_ended_by && $nl_scheduler = slurm && $(nl_count_ok) -lt $nl_processes ]]; then
  sleep 1
  if [[ -z $nl_ended_by && $(nl_count_ok) -lt $nl_processes ]] && nl_ask_controller && [[ $nl_state != RUNNING ]]; then
    nl_ended_by=SIGTERM # which is on its way
    nl_on_signal
  fi
fi
if [[ $nl_rc != 0 ]]; then
  # A launcher's own code says little (torchrun: always 1): the rank that failed first decides.
  if [[ ! -e $nl_ranks/first-failure.json && ! -e $nl_ranks/problem && -z $nl_ended_by ]]; then sleep 1; fi # NFS
  if [[ -r $nl_ranks/problem ]]; then # cause, then text for people
    { read -r nl_cause && IFS= read -r -d '' nl_message; } <"$nl_ranks/problem"
    nl_message=${nl_message%$'\n'}
    if [[ $nl_cause = python || $nl_cause = nsys ]]; then nl_rc=127; fi # not that of the ranks which were ended with it
  elif [[ $nl_contained && -z $nl_ended_by && ! -e $nl_ranks/first-failure.json ]]; then
    nl_explain_container
  fi
  if [[ $nl_cause = ended && $nl_scheduler = slurm && -z $nl_ended_by ]]; then nl_explain_memory; fi
  if [[ $(cat -- "$nl_ranks/first-failure.json" 2>/dev/null) =~ \"exit_code\":\ *([0-9]+) ]]; then
    nl_rc=${BASH_REMATCH[1]}
  fi
fi
if [[ $nl_ended_by ]]; then # whatever the code; where all came to their own end just then, the scheduler's word decides
  nl_cause=signal
  # srun says 0 for a step that was killed after a signal; only the ranks know whether they came to their end.
  if [[ $nl_rc = 0 && $(nl_count_ok) -lt $nl_processes ]]; then nl_rc=143; fi
fi
if [[ $nl_ended_by && -e $nl_job_dir/cancelled ]]; then nl_cause=cancelled; fi
nl_end "$nl_rc" "$nl_cause" "$nl_message"
