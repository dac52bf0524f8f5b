"""Kernel profiles from tables of measured kernels and from published rows, with the errors on shapes held back.

TABLES is a folder with the tables of ai-dynamo/aiconfigurator (`a100_sxm/gemm/...parquet`), ROWS a file of published
kernels. Devices of equal silicon are fitted together (`fitting.CHIPS`). What rows do not identify and what ends at a
bound of its range is named in the report. All profiles take about half an hour on one core.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from simulator.calibration.asked import Asked, present, save
from simulator.calibration.fitting import CHIPS, TABLES, Found, Report
from simulator.calibration.kernels import gemm, own
from simulator.calibration.kernels.attention import fit_generations
from simulator.calibration.kernels.figures import GENERATIONS, NOTES, PARENTS, STREAMS
from simulator.calibration.kernels.profile_lines import COMMAND, attention_yaml, markdown, narrow_yaml, older_yaml
from simulator.calibration.kernels.serving import fit_serving
from simulator.errors import InputError, Problem
from simulator.specs.hardware import Accelerator
from simulator.specs.kernels import KernelProfile
from simulator.specs.resolve import load_spec

SAMPLES = 2000
"""Products of a table that are fitted."""


def calibrate(asked: Asked) -> None:
    """Fit the profiles asked for with all of their chips, say their lines and errors, and write them; or one profile
    to files of one's own."""
    if not asked.files[0].is_dir():
        own.calibrate(asked)
        return
    if len(asked.files) != 2:
        count = f"{len(asked.files)} file{'s' * (len(asked.files) != 1)}"
        raise InputError(
            Problem(f"kernels takes TABLES and ROWS, not {count}", hint="or files of `clustersim measure`")
        )
    if asked.accelerator:
        raise InputError(Problem("`--accelerator` has no meaning for TABLES", hint="leave it out"))
    wanted = asked.chosen(sorted(TABLES), "kernel profile")
    report: Report = []
    with TemporaryDirectory() as scratch:
        folder = asked.out or Path(scratch)
        for chip in CHIPS:
            if set(chip) & set(wanted):
                rows, loose = fit_chip(asked, chip, folder)
                report += rows
                asked.say("\n".join([markdown(rows), *loose]))
    if asked.report:
        save(asked.report, markdown(report) + "\n")


def fit_chip(asked: Asked, chip: tuple[str, ...], folder: Path) -> tuple[Report, list[str]]:
    """(rows of the report, what is not settled) of a chip, whose profiles are written into a folder."""
    report: Report = []
    loose: list[str] = []
    if asked.part != "serving":
        report, loose = fit_products(asked, chip, folder)
    if asked.part != "products":
        rows, unsure = fit_serving(asked, chip, folder)
        report, loose = report + rows, loose + unsure
    return report, loose


def fit_products(asked: Asked, chip: tuple[str, ...], folder: Path) -> tuple[Report, list[str]]:
    """Fit products and prompt attention of a chip and write its profiles with them."""
    data, measurements = asked.files
    report: Report = []
    loose: list[str] = []
    lines = {profile: [*head_lines(profile), "gemm:"] for profile in chip}
    for dtype in gemm.formats(chip[0]):
        found, rows, unsure = gemm.fit_chip(data, measurements, chip, dtype, asked.samples or SAMPLES)
        report, loose = report + rows, loose + unsure
        for profile, mine in found.items():
            lines[profile] += gemm.gemm_lines(dtype, mine, profile)
    generations, rows, unsure = fit_generations(data, measurements, chip)
    report, loose = report + rows, loose + unsure
    for profile in chip:
        lines[profile] += [*attention_lines(profile, generations[profile]), *stream_lines(profile)]
        best = [] if profile in PARENTS else [f"best_attention: {next(iter(generations[profile]))}"]
        lines[profile] += [*best, f'notes: "{NOTES[profile]}"']
        asked.say("\n".join(lines[profile]))
        write(folder, profile, lines[profile])
    return report, loose


def attention_lines(profile: str, generations: Mapping[str, Found]) -> list[str]:
    """Lines of YAML of fused attention."""
    folder, version, _, _ = TABLES[profile]
    served = f"fitted on ai-dynamo/aiconfigurator {folder}/attention/{version} by {COMMAND}"
    lines = ["attention:"]
    for generation, found in generations.items():
        lines += attention_yaml(generation, found, GENERATIONS.get((profile, generation), served))
        lines += narrow_yaml() if generation == "cudnn" else []
    return lines + (older_yaml(generations["fa2"]) if "fa2" in generations and "fa1" not in generations else [])


def stream_lines(profile: str) -> list[str]:
    """Lines of YAML of passes over memory, where they were measured on the device itself."""
    if profile not in STREAMS:
        return []
    share, launch, origin = STREAMS[profile]
    return ["stream:", "  status: measured", f'  source: "{origin}"', f"  memory: {share}", f"  launch: {launch} us"]


def head_lines(profile: str) -> list[str]:
    """First lines of a profile."""
    name = load_spec(Accelerator, TABLES[profile][2]).name
    return [*([f"extends: {PARENTS[profile]}"] if profile in PARENTS else []), f"name: {name}"]


def write(folder: Path, profile: str, lines: Sequence[str]) -> None:
    """Write a profile; what a hand has measured elsewhere (`BY_HAND`) stays as it is in the present one."""
    kept = present(folder, KernelProfile.folder or "", profile).splitlines()
    by_hand = [line for line in kept if line.strip().startswith(BY_HAND)]
    place = max((number for number, line in enumerate(lines) if line.startswith("    settle:")), default=0) + 1
    if by_hand:  # they belong to the 16-bit products, the first format
        place = next(number for number, line in enumerate(lines) if line.startswith("    settle:")) + 1
    save(folder / f"{profile}.yaml", "\n".join([*lines[:place], *by_hand, *lines[place:]]) + "\n")


BY_HAND = ("misaligned_batch:",)
