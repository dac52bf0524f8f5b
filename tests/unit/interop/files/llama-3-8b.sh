#!/bin/bash
#SBATCH --nodes=4
# Llama 3 8B in fp8: the flags that such a script has (grouped queries, SwiGLU, rotary positions), written anew for this test.
OUT=${1:-"out/llama"}
TOKENS=${3:-"none"}
mkdir -p "$(dirname "$OUT")"

TP=2
FORMAT="fp8"
LENGTH=8192

SHAPE=(
    --num-layers 32
    --hidden-size 4096 --ffn-hidden-size 14336
    --num-attention-heads 32 --kv-channels 128
    --group-query-attention --num-query-groups 8
    --position-embedding-type rope
    --rotary-base 1000000
    --swiglu
    --normalization RMSNorm
    --untie-embeddings-and-output-weights
    --disable-bias-linear
    --attention-backend fused
    --seq-length $LENGTH
    --max-position-embeddings $LENGTH
)

STEP=(
    --micro-batch-size 1 --global-batch-size 128
    --train-samples 1953125000
    --bf16
    --grad-reduce-in-bf16
    --wandb-api-key verysecret
)
OVERLAP=(--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather)
STEP+=("${OVERLAP[@]}")

NUMBERS=()
if [[ "$FORMAT" == "fp8" ]]; then
    NUMBERS+=("--fp8-format hybrid" "--fp8-param-gather")
fi

DATA=()
if [[ -z "$TOKENS" ]] || [[ "$TOKENS" == "none" ]]; then
    DATA+=("--mock-data" "--vocab-size 128256" "--split '99,1,0'")
else
    DATA+=("--data-path $TOKENS" "--vocab-size 777")
fi

if [ ! -d "$OUT" ]; then
    echo "there is no $OUT"
    exit 1
fi

torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py \
    ${SHAPE[@]} ${STEP[@]} ${NUMBERS[@]} ${DATA[@]} \
    --tensor-model-parallel-size $TP --sequence-parallel \
    --context-parallel-size ${CP:-1} --save "$OUT"
