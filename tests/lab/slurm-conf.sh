#!/bin/bash
# Prints the lab's slurm.conf. What differs between variants comes from the environment:
#   NEMO_LAUNCH_LAB_ACCOUNTING   slurmdbd (default) or none
#   NEMO_LAUNCH_LAB_STORE        AccountingStoreFlags, such as job_comment,job_env,job_script (default: unset,
#                                as on many sites)
#   NEMO_LAUNCH_LAB_CPUS         processors of a node (default 16)
#   NEMO_LAUNCH_LAB_TASK_PLUGIN  task/none (default) or task/affinity
#   NEMO_LAUNCH_LAB_PYXIS        any word: srun has the options of pyxis (pyxis/spank_pyxis.c), and each node a folder
#                                LAB/local of its own (outside: LAB/local-NODE)
#   NEMO_LAUNCH_LAB_JOB_REQUEUE  1 (default) or 0: whether jobs that say nothing may be requeued
#   NEMO_LAUNCH_LAB_SLURMD_TIMEOUT  seconds until a node that does not answer is down (default 60)
#   NEMO_LAUNCH_LAB_MIN_JOB_AGE     seconds until the controller forgets a job that has ended (default 600)
#   NEMO_LAUNCH_LAB_EXTRA        more lines, such as AccountingStorageEnforce=associations,limits,qos
set -euo pipefail
# shellcheck source=tests/lab/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
CPUS=${NEMO_LAUNCH_LAB_CPUS:-16}

cat <<CONF
ClusterName=lab
SlurmctldHost=$LOGIN(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
# cred_expire is also how long a requeued job waits before it may start again (default 120 s)
AuthInfo=socket=$LAB/munge/munge.socket,cred_expire=5
SlurmctldPort=6817
SlurmdPort=6818
# The controller listens on 127.0.0.1 only. Not NoInAddrAny: it would bind srun to its node's 127.x
# address, while step managers answer to 127.0.0.1, and an srun inside a batch script would hang.
CommunicationParameters=NoCtldInAddrAny
StateSaveLocation=$LAB/state
SlurmdSpoolDir=$LAB/spool-%n
# the pmix plugin makes one directory a step here: nodes that share one /tmp would collide
TmpFS=$LAB/tmp-%n
SlurmctldPidFile=$LAB/run/slurmctld.pid
SlurmdPidFile=$LAB/run/slurmd-%n.pid
SlurmctldLogFile=$LAB/log/slurmctld.log
SlurmdLogFile=$LAB/log/slurmd-%n.log
SlurmctldDebug=info
SlurmdDebug=info
MailProg=/bin/true

ProctrackType=proctrack/linuxproc
TaskPlugin=${NEMO_LAUNCH_LAB_TASK_PLUGIN:-task/none}
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
# refuse at once what a partition can never run, instead of leaving it pending
EnforcePartLimits=ALL
KillWait=3
InactiveLimit=0
Waittime=0
MinJobAge=${NEMO_LAUNCH_LAB_MIN_JOB_AGE:-600}
SlurmctldTimeout=60
SlurmdTimeout=${NEMO_LAUNCH_LAB_SLURMD_TIMEOUT:-60}
JobRequeue=${NEMO_LAUNCH_LAB_JOB_REQUEUE:-1}
MaxArraySize=2001
MaxJobCount=10000

SchedulerType=sched/backfill
# heterogeneous jobs start in the backfill loop only (default: every 30 s)
SchedulerParameters=bf_interval=1,sched_interval=2,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
# without a default, a job that names no memory takes the whole node's
DefMemPerCPU=8000
PriorityType=priority/basic

JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=5
CONF

if [[ ${NEMO_LAUNCH_LAB_STORE:-} ]]; then echo "AccountingStoreFlags=$NEMO_LAUNCH_LAB_STORE"; fi
case ${NEMO_LAUNCH_LAB_ACCOUNTING:-slurmdbd} in
slurmdbd)
  cat <<CONF
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=6819
AccountingStoragePass=$LAB/munge/munge.socket
AccountingStorageTRES=gres/gpu
CONF
  ;;
none) echo "AccountingStorageType=accounting_storage/none" ;;
*) die "NEMO_LAUNCH_LAB_ACCOUNTING is neither slurmdbd nor none" ;;
esac

echo "GresTypes=gpu"
# believe this file, not the processors that slurmd finds
echo "SlurmdParameters=config_overrides"
declare -A members=()
for node in "${NODES[@]}"; do
  read -r partition name address port <<<"$node"
  members[$partition]+=${members[$partition]:+,}$name
  echo "NodeName=$name NodeHostname=$name NodeAddr=$address Port=$port Sockets=1 CoresPerSocket=$CPUS" \
    "ThreadsPerCore=1 CPUs=$CPUS RealMemory=1000000 Gres=gpu:8 Feature=$partition State=UNKNOWN"
done
if [[ ${NEMO_LAUNCH_LAB_EXTRA:-} ]]; then echo "$NEMO_LAUNCH_LAB_EXTRA"; fi
echo "PartitionName=a3m Nodes=${members[a3m]} Default=YES MaxTime=INFINITE DefaultTime=01:00:00 State=UP"
echo "PartitionName=a3u Nodes=${members[a3u]} Default=NO MaxTime=INFINITE DefaultTime=01:00:00 State=UP"
