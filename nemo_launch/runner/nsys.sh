#!/bin/sh
# A command under nsys profile, with the command's own exit code; any POSIX shell.
#   sh nsys.sh RANKS OUTPUT NAME WHICH SIGNAL [OPTION]... -- WORD...
# OUTPUT: nsys' --output; with / at its end a folder, in which the report is called NAME-NODE. WHICH: all, first (of each
# node), or ranks as in 0,3; others, and WHICH none, run the command as it is. SIGNAL: another one to expect, or empty.
#   sh nsys.sh --inside FILE GROUP SIGNAL WORD...
# is the command as nsys starts it.
# Names begin with nl_ because an assignment to any other could change the program's environment.
nl_signals='TERM INT HUP QUIT USR1 USR2'

if [ "$1" = --inside ]; then
  nl_file=$2 nl_group=$3 nl_signals="$nl_signals $4"
  shift 4
  read -r _ _ _ _ nl_own _ <"/proc/$$/stat" 2>/dev/null
  # nsys may put it into a process group of its own, which then has to be signalled by whoever signalled ours
  if [ "$nl_own" ] && [ "$nl_own" != "$nl_group" ]; then printf '%s\n' "$nl_own" >"$nl_file.group"; fi
  printf '%s\n' "$$" >"$nl_file.pid"
  # What is ignored here would be ignored by the program as well, and a shell cannot take that back.
  # shellcheck disable=SC2086 # words
  if env "--default-signal=$(printf %s "${nl_signals% }" | tr ' ' ,)" true 2>/dev/null; then
    env "--default-signal=$(printf %s "${nl_signals% }" | tr ' ' ,)" sh -c 'exec "$@"' sh "$@"
  elif command -v perl >/dev/null; then
    # shellcheck disable=SC2016 # perl's
    perl -e '$SIG{$_} = "DEFAULT" for split " ", shift; exec { $ARGV[0] } @ARGV; exit 127' "$nl_signals" "$@"
  else
    "$@"
  fi
  nl_code=$?
  printf '%s\n' "$nl_code" >"$nl_file.new" && mv -f "$nl_file.new" "$nl_file"
  exit "$nl_code"
fi

nl_ranks=$1 nl_output=$2 nl_name=$3 nl_which=$4 nl_signal=$5
shift 5
nl_node=${SLURMD_NODENAME:-$(uname -n)}
nl_node=${nl_node%%.*}
nl_rank=${RANK:-0}

nl_stop() { # nl_stop CODE TEXT: it becomes the reason that status shows
  if (set -C && printf 'nsys\n%s\n' "$2" >"$nl_ranks/problem") 2>/dev/null; then printf 'nemo_launch: %s\n' "$2"; fi
  exit "$1"
}

if ! command -v nsys >/dev/null; then
  nl_stop 127 "there is no nsys on $nl_node, which nsys_enabled needs. Install NVIDIA Nsight Systems there (with a \
container: in its image), put it on PATH with env_vars or setup, or turn nsys_enabled off."
fi
case $nl_which in
all) ;;
first) if [ "${LOCAL_RANK:-0}" != 0 ]; then nl_which=none; fi ;;
*) case ,$nl_which, in *",$nl_rank,"*) nl_name=$nl_name-rank$nl_rank ;; *) nl_which=none ;; esac ;;
esac
if [ "$nl_which" = none ]; then
  while [ "$1" != -- ]; do shift; done
  shift
  exec "$@"
fi

case $nl_output in */) nl_output=$nl_output$nl_name-$nl_node ;; esac
case $nl_output in
*/*) mkdir -p -- "${nl_output%/*}" || nl_stop 73 "cannot make ${nl_output%/*} on $nl_node for the reports of nsys. Set nsys_output to another place." ;;
esac
nl_file=$nl_ranks/nsys-$nl_node-$nl_rank
rm -f -- "$nl_file" "$nl_file.pid" "$nl_file.group"
nl_group=
read -r _ _ _ _ nl_group _ <"/proc/$$/stat" 2>/dev/null

nl_i=$# nl_seen=
while [ "$nl_i" -gt 0 ]; do # to the end of the words, with ours in the middle
  nl_word=$1
  shift
  if [ ! "$nl_seen" ] && [ "$nl_word" = -- ]; then
    nl_seen=1
    set -- "$@" "--output=$nl_output" sh "$0" --inside "$nl_file" "$nl_group" "$nl_signal"
  else
    set -- "$@" "$nl_word"
  fi
  nl_i=$((nl_i - 1))
done

# nsys would end the collection, and perhaps the program: signals are for the program alone, whose end ends nsys.
# shellcheck disable=SC2086 # words
trap '' $nl_signals $nl_signal
nsys profile "$@"
nl_code=$?
# It may be done before the program is (--duration, an end of the range that shuts it down).
while [ ! -e "$nl_file" ] && nl_pid=$(cat "$nl_file.pid" 2>/dev/null) && kill -0 "$nl_pid" 2>/dev/null; do sleep 1; done
if [ -e "$nl_file" ]; then
  nl_own=$nl_code
  nl_code=$(cat "$nl_file")
  if [ "$nl_own" != 0 ] && [ "$nl_own" != "$nl_code" ]; then
    printf 'nemo_launch: nsys itself ended with exit code %s on %s: its report may be missing\n' "$nl_own" "$nl_node"
  fi
elif [ ! -e "$nl_file.pid" ]; then
  nl_stop "$((nl_code ? nl_code : 1))" "nsys on $nl_node did not start the program (exit code $nl_code): what it said is in the log. \
Look at nsys_trace and nsys_args."
elif [ "$nl_code" = 0 ]; then
  nl_code=137 # killed before it could say
fi
if [ -e "$nl_output.nsys-rep" ]; then printf 'nemo_launch: report of nsys: %s.nsys-rep\n' "$nl_output"; fi
rm -f -- "$nl_file.group"
exit "$nl_code"
