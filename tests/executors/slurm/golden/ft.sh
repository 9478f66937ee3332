#!/bin/bash
#SBATCH --job-name=demo
#SBATCH --output=/home/ann/.nemo_run/experiments/demo/demo_1753123402/demo/%j.log
#SBATCH --open-mode=append
#SBATCH --chdir=/home/ann/.nemo_run/experiments/demo/demo_1753123402/demo
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --no-requeue
#SBATCH --comment=/home/ann/.nemo_run/experiments/demo/demo_1753123402/demo/job.sh
#SBATCH --export=ALL
# Written by nemo_launch; the text after the values is the same for every job.
nl_scheduler=slurm
nl_experiment=demo_1753123402
nl_task=demo
nl_job_dir=/home/ann/.nemo_run/experiments/demo/demo_1753123402/demo
nl_work_dir=/home/ann/work
nl_launcher=ft
nl_language=python
nl_program=( /home/ann/.nemo_run/snapshots/0123/train.py lr=1e-3 'a b' '$HOME' )
nl_interpreter=()
nl_python=python3
nl_pythonpath=( /home/ann/.nemo_run/snapshots/0123 )
nl_nodes=2
nl_ntasks_per_node=8
nl_cpus_per_task=''
nl_gpus_per_node=''
nl_master_port=13742
nl_fabric=()
nl_user_env=()
nl_srun_args=()
nl_container_name=''
nl_mounts=()
nl_folders=()
nl_setup=''
nl_env=()
nl_signal=''
nl_secrets_file=''
nl_resume_on=()
nl_resume_codes=()
nl_max_restarts=10
nl_margin=''
nl_ft=( --max-restarts=5 --ft-initial-rank-heartbeat-timeout=600.0 --ft-rank-heartbeat-timeout=90.0 --ft-restart-policy=any-failed --ft-log-level=WARNING )
nl_nsys=()
nl_nsys_output=''
nl_nsys_ranks=()
nl_member=''
nl_group=''
nl_het_group=''
