"""Kernel profiles as YAML, and the error table of their fit."""

from collections.abc import Mapping, Sequence

from simulator.calibration.kernels.figures import FA1_SHARE, NARROW

DIGITS = 4
COMMAND = "clustersim calibrate kernels"
"""What the sources of fitted coefficients name."""


def rounded(value: float) -> float:
    """Four significant digits."""
    return float(f"{value:.{DIGITS}g}")


def gemm_yaml(
    dtype: str, found: Mapping[str, float], names: Sequence[str], tiles: Sequence[tuple[int, int]], source: str
) -> list[str]:
    """Lines of one number format."""
    lines = [f"  {dtype}:", "    status: measured", f'    source: "{source}"', "    tiles:"]
    lines += [f"      - {{long: {a}, short: {b}, efficiency: {rounded(found[f'{a}x{b}'])}}}" for a, b in tiles]
    for name in names:
        unit = {"launch": " us", "prologue": " us", "split": " us", "settle": " us", "step": " ns", "ramp": " kB"}.get(
            name, ""
        )
        scale = {" us": 1e6, " ns": 1e9, " kB": 1e-3}.get(unit, 1.0)
        lines.append(f"    {name}: {rounded(found[name] * scale)}{unit}")
    return lines


def attention_yaml(generation: str, found: dict[str, float], source: str) -> list[str]:
    """Lines of one generation of attention kernels."""
    sides = {side: {n[1:]: rounded(v) for n, v in found.items() if n[0] == side and n[1:].isdigit()} for side in "fb"}
    lines = [f"  {generation}:", "    status: measured", f'    source: "{source}"']
    for name, side in (("forward", sides["f"]), ("backward", sides["b"])):
        lines.append(f"    {name}: {{{', '.join(f'{size}: {rate}' for size, rate in side.items())}}}")
    for name in ("launch", "block", "backward_block"):
        lines.append(f"    {name}: {rounded(found[name] * 1e6)} us")
    return [*lines, f"    tail: {rounded(found['tail'])}"]


def narrow_yaml() -> list[str]:
    """Lines of what cuDNN's attention gains and loses in 8 bits."""
    sides = {name: ", ".join(f"{size}: {rate}" for size, rate in rates.items()) for name, rates in NARROW.items()}
    return ["    # fp8 over bf16, cuDNN 9.27 on H200", *(f"    {name}: {{{rates}}}" for name, rates in sides.items())]


def older_yaml(newer: dict[str, float]) -> list[str]:
    """Lines of FlashAttention-1 where it was not measured, from FlashAttention-2."""
    known = " and ".join(f"{share} {side}" for side, share in FA1_SHARE.items())
    lines = [
        "  fa1:",
        "    status: estimate",
        f'    source: "fa2 here times the ratio of fa1 to fa2 on A100, {known} at heads of 64; 128 alike"',
    ]
    for side, share in FA1_SHARE.items():
        rate = rounded(newer[f"{side[0]}64"] * share)
        lines.append(f"    {side}: {{64: {rate}, 128: {rate}}}")
    lines += [f"    {name}: {rounded(newer[name] * 1e6)} us" for name in ("launch", "block", "backward_block")]
    return [*lines, "    tail: 0.3"]


UNITS = {"launch": (1e6, " us"), "gather": (1e6, " us"), "apart": (1e6, " us"), "ramp": (1e-6, " MB")}
UNITS |= dict.fromkeys(("sequence", "block", "write_token", "chain", "each"), (1e9, " ns"))
UNITS["step_launch"] = (1e6, " us")


def group_yaml(found: Mapping[str, float], source: str, indent: int) -> list[str]:
    """Lines of one group of coefficients of serving."""
    space = " " * indent
    lines = [f"{space}status: measured", f'{space}source: "{source}"']
    for name, value in found.items():
        scale, unit = UNITS.get(name, (1.0, ""))
        text = str(bool(value)).lower() if name in ("cuts_all", "whole") else f"{rounded(value * scale)}{unit}"
        text = f"{value:.0f}" if name == "tile" else text
        lines.append(f"{space}{name}: {text}")
    return lines


def markdown(rows: Sequence[dict[str, object]]) -> str:
    """The error table."""
    head = "| profile | kernels | shapes | set | rows | median | mean | P90 | signed |\n" + "|---" * 9 + "|\n"
    return head + "\n".join(
        f"| {row['profile']} | {row['dtype']} | {row['shapes']} | {row['set']} | {row['rows']} | {row['median']:.1f} % "
        f"| {row['mean']:.1f} % | {row['p90']:.1f} % | {row['signed']:+.1f} % |"
        for row in rows
    )
