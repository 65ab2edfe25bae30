#!/bin/bash
# A training on several nodes with SLURM, from the folder of params.yaml, which all nodes share:
#
#     sbatch examples/cluster/slurm.sh                                         # the teacher
#     sbatch --export=ALL,STAGE="fit --family ar --in-place" examples/cluster/slurm.sh
#     sbatch --export=ALL,STAGE=distill examples/cluster/slurm.sh
#     sbatch --export=ALL,STAGE=align examples/cluster/slurm.sh
#
# Adapt the four lines of resources. Before `fit`, `python -m pipeline corpus` and `bpe` have run, and after it
# `dvc commit` records what it wrote.
#SBATCH --job-name=fast-nmt
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
# Two minutes before the time is over, the processes get SIGTERM and exit with status 143.
#SBATCH --signal=TERM@120
set -u
cd "${SLURM_SUBMIT_DIR:?is set by sbatch}" || exit 1
read -r -a verb <<< "${STAGE:-fit --family teacher --in-place}"
case ${verb[0]} in
    fit) across=(--trainer.num_nodes "$SLURM_NNODES" --trainer.devices "$SLURM_NTASKS_PER_NODE" --trainer.strategy ddp) ;;
    distill) across=(--num-nodes "$SLURM_NNODES" --devices "$SLURM_NTASKS_PER_NODE") ;;
    align)  # without Lightning, which finds the first node by itself
        across=()
        MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
        export MASTER_ADDR MASTER_PORT=29500 ;;
    *) echo "STAGE: ${verb[0]}: is none of fit, distill, align" >&2; exit 2 ;;
esac
# One process per task. If one of them ends with an error, srun ends the others after a minute at the latest.
srun --kill-on-bad-exit=1 --wait=60 "${PYTHON:-.venv/bin/python}" -m pipeline "${verb[@]}" "${across[@]}"
status=$?
# A training or a distillation continues where it stopped.
if [ "$status" = 143 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
