#!/bin/bash
# GPT-3 with 175 billion parameters: sizes and layout of the usual launch script, written anew for this test.
DEVICES=8
MACHINES=1
ALL=$(($DEVICES*$MACHINES))
MERGES=$2  # second word of the command line

LAUNCH=(
    --nproc_per_node $DEVICES
    --nnodes $MACHINES
)

SHAPE=(
    --attention-backend auto  # don't care
    --seq-length 2048
    --num-layers 96
    --hidden-size 12288
    --num-attention-heads 96
    --max-position-embeddings 2048
)

STEP=(
    --global-batch-size 1536
    --micro-batch-size 1
    --rampup-batch-size 16 16 5859375
    --train-iters 500000
    --fp16
    --lr 6.0e-5
    --lr-warmup-fraction .001
)

LAYOUT=(
	--pipeline-model-parallel-size 16 
	--tensor-model-parallel-size 8 
)

torchrun ${LAUNCH[@]} pretrain_gpt.py \
    ${SHAPE[@]} ${STEP[@]} \
    ${LAYOUT[@]} \
    --vocab-file $1 --merge-file $MERGES --split 949,50,1
