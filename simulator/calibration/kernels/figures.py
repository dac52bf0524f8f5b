"""What kernel profiles are fitted on besides tables: figures of publications, and where each coefficient comes from."""

FIGURES = {
    ("fa3", 128, False, False): (467, 565, 625, 638, 646, 648),
    ("fa3", 128, True, False): (292, 423, 521, 579, 602, 616),
    ("fa3", 64, False, False): (333, 392, 460, 476, 496, 497),
    ("fa3", 64, True, False): (197, 265, 371, 420, 460, 473),
    ("fa3", 256, False, False): (482, 639, 707, 736, 746, 756),
    ("fa3", 256, True, False): (286, 427, 537, 612, 628, 642),
    ("fa3", 128, False, True): (316, 424, 501, 542, 559, 561),
    ("fa3", 64, False, True): (272, 363, 422, 453, 472, 474),
    ("fa2", 128, False, False): (309, 350, 362, 368, 370, 370),
    ("fa2", 128, True, False): (191, 260, 298, 319, 333, 335),
    ("fa2", 64, False, False): (282, 306, 318, 321, 322, 324),
    ("fa2", 64, True, False): (180, 229, 262, 284, 295, 299),
    ("fa2", 256, False, False): (275, 313, 321, 323, 324, 326),
    ("fa2", 256, True, False): (208, 251, 278, 293, 297, 298),
    ("fa2", 128, False, True): (214, 260, 291, 310, 318, 322),
    ("fa2", 64, False, True): (198, 238, 264, 279, 287, 291),
}
"""TFLOP/s by (generation, head size, causal, backward) at the sequence lengths of `LENGTHS`, 16,384 tokens, hidden size
2,048, H100 SXM: the numbers on the bars of Figures 5 and 6 of FlashAttention-3, arXiv:2407.08608, read in
transcriptions; they equal the bars that the figures of its repository repeat."""
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
A100_FORWARD = {128: 0.73, 64: 0.64}
"""FlashAttention-2 forward on A100, share of the peak at long sequences: up to 73 % by arXiv:2307.08691, section 4.1;
heads of 64 by the ratio of the two on H100. It splits the published sums of forward and backward."""
STREAMS = {
    "a100-sxm": (
        0.84,
        1.3,
        "BabelStream 1.61 to 1.75 of 2.04 TB/s (Azure AI benchmarking guide), gpu-benches 1.70 to 1.90",
    ),
    "h100-sxm": (0.88, 1.3, "BabelStream 2.90 to 3.18 of 3.35 TB/s (Azure AI benchmarking guide); launch of H200"),
    "h200-sxm": (
        0.78,
        1.26,
        "gpu-benches: scale 3.34 of 4.8 TB/s at 272 MB, read 3.89; flat products of the tables read at 4.2",
    ),
}
"""Profile: (share of the bandwidth, microseconds of a launch in a CUDA graph by gpu-benches, source)."""
REPOSITORY = "figures of github:Dao-AILab/flash-attention"
CUDNN = "github:NVIDIA/cudnn-frontend benchmark/sdpa_benchmark_training, cuDNN 9.19 on "
GENERATIONS = {
    ("a100-sxm", "fa2"): f"{REPOSITORY} (forward and backward), split by arXiv:2307.08691 section 4.1",
    ("a100-sxm", "fa1"): f"{REPOSITORY} (forward and backward, heads of 64); heads of 128 assumed no faster",
    ("h100-sxm", "fa3"): f"arXiv:2407.08608 Figures 5 and 6, {REPOSITORY}",
    ("h100-sxm", "fa2"): f"arXiv:2407.08608 Figures 5 and 6, {REPOSITORY}",
    ("h200-sxm", "fa3"): "H100 (arXiv:2407.08608 Figures 5 and 6): the same processor",
    ("h200-sxm", "fa2"): "H100 (arXiv:2407.08608 Figures 5 and 6): the same processor",
    ("h100-sxm", "cudnn"): f"H200 ({CUDNN}H200): the same processor",
    ("h200-sxm", "cudnn"): f"{CUDNN}H200",
}
NARROW = {"narrow": {64: 1.0, 128: 1.49, 192: 0.97}, "narrow_backward": {64: 1.0, 128: 0.64, 192: 1.0}}
"""cuDNN's attention on Hopper in fp8 over 16 bits, causal, 4,096 to 16,384 tokens, by head size (cuDNN 9.27 on H200,
github:NVIDIA/cudnn-frontend benchmark/attention_training/results/{llama3.1,dsv3}, 28 September 2026). Backward passes
in fp8 do not skip what a causal mask leaves out; keys of 192 have none, and heads of 64 were not timed: 1."""
FA1_SHARE = {"forward": 0.54, "backward": 0.64}
"""FlashAttention-1 over FlashAttention-2 at heads of 64 on A100, carried to Hopper; heads of 128 are no faster."""
PARENTS = {"b200-sxm": "blackwell", "l40s": "ada"}
"""Profiles that estimate what the tables of a device do not have: kernels of training, passes over memory."""
NOTES = {
    "a100-sxm": (
        "Kernels alone in a loop. `paged` is FlashAttention-2 over a paged cache as vLLM runs it. At a bound of "
        "their range: `gemm.bf16.softness` (0: cuBLAS gives a wave of tiles to the cores as a whole), "
        "`decode.sequence` (0: nothing of a sequence beside its blocks)."
    ),
    "h100-sxm": (
        "Kernels alone in a loop, fp8 without casts. `paged`: FlashAttention-3 on a paged cache, as in vLLM. At a "
        "bound of their range: `scans.fused.delta.launch` (1 us: part of its first wave)."
    ),
    "h200-sxm": "Kernels alone in a loop, fp8 without casts. `paged`: FlashAttention-3 on a paged cache, as in vLLM.",
    "b200-sxm": (
        "Kernels alone in a loop, fp8 without casts. `paged`: FlashInfer's kernels of Blackwell, as in vLLM. At a "
        "bound of their range: `attention.paged.tail` (1: cores finish apart by a whole block), "
        "`experts.cutlass.fp8.rate` and `experts.cutlass.fp8.ramp` (not identified by its rows; an estimate), "
        "`experts.trtllm-gen.fp4.ramp` (0.2 us: kernels that begin before the one before them ends)."
    ),
    "l40s": (
        "Kernels alone in a loop, fp8 without casts. `paged`: FlashAttention-2 on a paged cache, as in vLLM. At a "
        "bound of their range: `gemm.bf16.launch` (0.3 us: not told apart from filling a tile), "
        "`gemm.bf16.softness` (0: as on A100), `attention.paged.tail` (0) and `decode.overlap` (0: reading hides "
        "all); as a loop finds its data in the cache of 96 MB: `attention.paged.launch` (1 us), `decode.write` and "
        "`decode.query`, and `experts.cutlass.fp8.launch` (2 us); `weight_only.rate` and `weight_only.memory` (1: "
        "widening costs nothing that its rows show) and `scans.triton.delta.launch` (1 us: small scans are left out, "
        "so that its block and chain are not identified either)."
    ),
}
