#!/bin/bash
#SBATCH --job-name=my" "job
#SBATCH --output=/home/ann/.nemo_run/experiments/demo/demo_1753123402/demo/%j.log
#SBATCH --open-mode=append
#SBATCH --chdir=/home/ann/.nemo_run/experiments/demo/demo_1753123402/demo
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=2
#SBATCH --mem-per-gpu=80G
#SBATCH --time=00:04:00
#SBATCH --account=llm
#SBATCH --partition=a3m,a3u
#SBATCH --qos=high
#SBATCH --constraint=h100\&nvlink
#SBATCH --reservation=school
#SBATCH --nodelist=a3m-\[0-3\]
#SBATCH --exclude=a3m-9
#SBATCH --mail-type=END,FAIL
#SBATCH --mail-user=ann@example.org
#SBATCH --no-requeue
#SBATCH --signal=B:USR1@45
#SBATCH --comment=/home/ann/.nemo_run/experiments/demo/demo_1753123402/demo/job.sh
#SBATCH --export=ALL
#SBATCH --gres=shard:2
#SBATCH --nice=10
# Written by nemo_launch; the text after the values is the same for every job.
nl_scheduler=slurm
nl_experiment=demo_1753123402
nl_task=demo
nl_job_dir=/home/ann/.nemo_run/experiments/demo/demo_1753123402/demo
nl_work_dir=/home/ann/work
nl_launcher=srun
nl_language=python
nl_program=( /home/ann/.nemo_run/snapshots/0123/train.py lr=1e-3 'a b' '$HOME' )
nl_interpreter=()
nl_python=python3.11
nl_pythonpath=( /home/ann/.nemo_run/snapshots/0123 )
nl_nodes=4
nl_ntasks_per_node=2
nl_cpus_per_task=12
nl_gpus_per_node=2
nl_master_port=20000
nl_fabric=()
nl_user_env=()
nl_srun_args=( --mpi=pmix --cpu-bind=cores )
nl_container_name=''
nl_mounts=()
nl_folders=()
nl_setup='module load cuda
echo '"'"'ready'"'"''
nl_env=()
nl_signal=USR1
nl_secrets_file=''
nl_resume_on=()
nl_resume_codes=()
nl_max_restarts=10
nl_margin=45
nl_ft=()
nl_nsys=()
nl_nsys_output=''
nl_nsys_ranks=()
nl_member=''
nl_group=''
nl_het_group=''
