#!/bin/bash
#SBATCH --job-name=demo
#SBATCH --output=/home/ann/.nemo_run/experiments/demo/demo_1753123402/demo/%j.log
#SBATCH --open-mode=append
#SBATCH --chdir=/home/ann/.nemo_run/experiments/demo/demo_1753123402/demo
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --no-requeue
#SBATCH --comment=/home/ann/.nemo_run/experiments/demo/demo_1753123402/demo/job.sh
#SBATCH --export=ALL
# Written by nemo_launch; the text after the values is the same for every job.
nl_scheduler=slurm
nl_experiment=demo_1753123402
nl_task=demo
nl_job_dir=/home/ann/.nemo_run/experiments/demo/demo_1753123402/demo
nl_work_dir=/home/ann/work
nl_launcher=torchrun
nl_language=python
nl_program=( /home/ann/.nemo_run/snapshots/0123/train.py lr=1e-3 'a b' '$HOME' )
nl_interpreter=()
nl_python=python3
nl_pythonpath=( /home/ann/.nemo_run/snapshots/0123 )
nl_nodes=1
nl_ntasks_per_node=1
nl_cpus_per_task=''
nl_gpus_per_node=''
nl_master_port=13742
nl_fabric=()
nl_user_env=()
nl_srun_args=( --container-image=/images/nemo.sqsh --container-mounts=/home/ann/work:/home/ann/work,/home/ann/.nemo_run/experiments/demo/demo_1753123402/demo:/home/ann/.nemo_run/experiments/demo/demo_1753123402/demo,/scratch/logs:/scratch/logs,/data:/d:ro --container-workdir=/home/ann/work --container-env=HF_HOME,HF_TOKEN,NCCL_DEBUG,NEMO_LAUNCH_LOG_DIR,TORCH_HOME --no-container-mount-home )
nl_container_name=''
nl_mounts=( /images/nemo.sqsh /home/ann/work /home/ann/.nemo_run/experiments/demo/demo_1753123402/demo /scratch/logs /data )
nl_folders=( /scratch/logs /home/ann/work/cache/huggingface /home/ann/work/cache/torch )
nl_setup=''
nl_env=()
nl_signal=''
nl_secrets_file=''
nl_resume_on=()
nl_resume_codes=()
nl_max_restarts=10
nl_margin=''
nl_ft=()
nl_nsys=()
nl_nsys_output=''
nl_nsys_ranks=()
nl_member=''
nl_group=''
nl_het_group=''
