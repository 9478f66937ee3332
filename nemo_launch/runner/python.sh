#!/bin/sh
# In a container, once for each agent or rank, before Python: sh python.sh RANKS PYTHON PYTHONPATH [env NAME=VALUE...] PROGRAM...
# An image without a Python that the runner understands would fail without a clear word. Needs a POSIX shell.
nl_ranks=$1 nl_python=$2 nl_pythonpath=$3
shift 3
nl_path=$PATH
for nl_word; do
  case $nl_word in
  env) ;;
  PATH=*) nl_path=${nl_word#PATH=} ;;
  [A-Za-z_]*=*) ;;
  *) break ;;
  esac
done
nl_node=${SLURMD_NODENAME:-$(uname -n)}
nl_node=${nl_node%%.*}

nl_stop() { # nl_stop TEXT
  nl_text="$1 in the image on $nl_node. Python scripts need Python 3.8 or newer there: use an image that has it, or set python to one that does."
  if (set -C && printf 'python\n%s\n' "$nl_text" >"$nl_ranks/problem") 2>/dev/null; then printf 'nemo_launch: %s\n' "$nl_text"; fi
  exit 127
}

nl_found=$(PATH=$nl_path; command -v -- "$nl_python") || nl_stop "there is no $nl_python"
nl_said=$("$nl_found" -c 'import sys; print("%d.%d" % sys.version_info[:2]); sys.exit(3 * (sys.version_info < (3, 8)))' 2>/dev/null)
if [ "$?" = 3 ]; then nl_stop "$nl_python is Python $nl_said"; fi # anything else it says better itself

# The image's own PYTHONPATH stands for ours unless it has none: the copy of the code comes first.
case ":${PYTHONPATH:-}:" in
":$nl_pythonpath:"*) ;;
*) if [ "$nl_pythonpath" ]; then export PYTHONPATH="$nl_pythonpath${PYTHONPATH:+:$PYTHONPATH}"; fi ;;
esac
exec "$@"
