#!/bin/sh
# On a compute node: an image of a registry becomes a file of enroot's, for run.py import-image.
#   sh import_image.sh IMAGE TARGET PROCESSORS REGISTRY
# The target is replaced by a rename when the new file is complete. Credentials are files in a private folder that goes
# away with this script: no value is in an argument, the environment of enroot, or the log.
image=$1 target=$2 processors=$3 registry=$4
node=${SLURMD_NODENAME:-$(uname -n)}
node=${node%%.*}
folder=$(dirname -- "$target")
part=$folder/.${target##*/}.$NEMO_LAUNCH_JOB_ID.part
config=

say() { printf 'nemo_launch: %s\n' "$*"; }

stop() { # stop CODE TEXT: it becomes the reason that status shows
  say "$2"
  printf 'import\n%s\n' "$2" >"$NEMO_LAUNCH_TASK_DIR/ranks-$NEMO_LAUNCH_JOB_ID-$NEMO_LAUNCH_ATTEMPT/problem"
  exit "$1"
}

trap 'rm -rf -- ${config:+"$config"} "$part"' EXIT
trap 'exit 143' TERM INT HUP

command -v enroot >/dev/null || stop 127 "there is no enroot on $node, which makes image files. Choose nodes that have it (--partition, --constraint)."
if [ ! -d "$folder" ] || [ ! -w "$folder" ]; then
  stop 1 "$folder is missing on $node, or closed to you. Name a target in a folder that the nodes see."
fi

mask=$(umask)
umask 077
config=$(mktemp -d "${TMPDIR:-/tmp}/nemo-launch-import.XXXXXX") || stop 1 "cannot make a private folder on $node."
case $registry in
*.pkg.dev)
  # At this moment and not at launch: such a token lives for an hour, and the job may have waited longer.
  if token=$(gcloud auth print-access-token 2>"$config/said") && [ "$token" ]; then
    printf 'machine %s login oauth2accesstoken password %s\n' "$registry" "$token" >"$config/.credentials"
  else
    say "gcloud auth print-access-token gave no token on $node: $(tail -n 1 "$config/said")"
  fi
  unset token
  ;;
esac
if [ ! -e "$config/.credentials" ] && [ "${NEMO_LAUNCH_IMPORT_SECRET:-}" ]; then
  printf '%s\n' "$NEMO_LAUNCH_IMPORT_SECRET" >"$config/.credentials"
fi
unset NEMO_LAUNCH_IMPORT_SECRET
if [ ! -e "$config/.credentials" ]; then say "no credentials for ${registry:-the registry}: asking as anybody"; fi

say "importing $image on $node with $processors processors"
{
  umask "$mask"
  ENROOT_CONFIG_PATH=$config ENROOT_MAX_PROCESSORS=$processors enroot import --output "$part" -- "$image" 2>&1
  echo "$?" >"$config/code"
} | tee "$config/output"
code=$(cat "$config/code")
if [ "$code" != 0 ] || [ ! -s "$part" ]; then
  why=$(grep -F '[ERROR]' "$config/output" | tail -n 1)
  if [ "$code" = 0 ]; then code=1; fi
  stop "$code" "enroot could not import $image: ${why:-see the log}. $target is as it was."
fi
mv -f -- "$part" "$target" || stop 1 "the image could not be moved to $target."
say "$target is complete"
