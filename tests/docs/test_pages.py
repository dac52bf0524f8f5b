"""README and documentation: what they tell people to type works, what they show loads, their links lead somewhere."""

import html
import importlib.util
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path

import pytest
from docutils import nodes

from docs import generate_reference, mathml, pages, written_by_program
from simulator.cli import main
from simulator.cli.commands import COMMANDS, command
from simulator.cli.parser import parser_of
from simulator.metrics import METRICS
from simulator.results.summary import to_json
from simulator.run.simulate import LARGE, simulate
from simulator.specs import load_scenario

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(p for p in DOCS.rglob("*.md") if "_build" not in p.parts)]
LINK = re.compile(r"(?<!!)\[[^\]\[]*\]\(<?([^)\s>]+)>?\)")
TARGET = re.compile(r"^\((.+?)\)=$", re.MULTILINE)
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)


def name_of(path: Path) -> str:
    """A page's name in the list of tests."""
    return path.relative_to(ROOT).as_posix()


def every_page(argument: str) -> pytest.MarkDecorator:
    """Run a test for every page."""
    return pytest.mark.parametrize(argument, PAGES, ids=name_of)


def commands() -> Iterator[tuple[Path, pages.Command]]:
    """Every command line of every page once, those that building the site runs left out; a page's own files make it
    another command."""
    seen = set()
    for page in PAGES:
        shown = pages.read_page(page)
        for typed in shown.commands:
            needed = tuple(name for name in shown.files if any(name in word for word in typed.words))
            key = (typed, needed and page)
            if typed.words[0] == pages.PROGRAM and not typed.shown and key not in seen:
                seen.add(key)
                yield page, typed


LONG = ("compare", "plan", "sweep")
"""Commands that simulate many times: slow tests but for those of the README."""
COMMANDS_OF_PAGES = [
    pytest.param(
        page,
        typed,
        id=f"{name_of(page)}: {' '.join(typed.words)}",
        marks=[pytest.mark.slow] * (typed.words[1] in LONG and page != written_by_program.README),
    )
    for page, typed in commands()
]


SMALLER = {
    "scenarios/training/weeks-70b.yaml": "training.run.samples=2",
    "scenarios/jobs/training-beside-serving.yaml": "jobs.1.requests.count=30",
}
"""What makes a scenario of the pages cheap: a word more behind those that a page shows."""


@pytest.mark.parametrize(("page", "typed"), COMMANDS_OF_PAGES)
def test_commands_do_what_the_page_says(
    page: Path, typed: pages.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(page, tmp_path, monkeypatch)
    output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with redirect_stdout(output), redirect_stderr(output):
        code = main([*typed.words[1:], *(SMALLER[word] for word in typed.words if word in SMALLER)])
        output.flush()
    assert code == typed.exit, output.buffer.getvalue().decode()  # type: ignore[attr-defined]


def write_files(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the files that a page shows into the working folder."""
    monkeypatch.chdir(folder)
    for name, text in pages.read_page(page).files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")


@every_page("page")
def test_scenarios_that_a_page_shows_load(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(page, tmp_path, monkeypatch)
    for name, text in pages.read_page(page).files.items():
        if text.partition("\n")[2].startswith(("version:", "extends:")):
            load_scenario(name)


PYTHON = [
    ("docs/howto/scripts.md", "in-python.py", "assert 0 < result.metrics['mfu'] < 1"),
    ("docs/howto/sweep.md", "a-sweep.py", "assert 0 < table.best('mfu')[0].metrics['mfu'] < 1"),
    ("docs/howto/two-jobs.md", "two-jobs.py", "assert both.metrics['worst_slowdown'] > 1.2"),
    (
        "docs/howto/two-jobs.md",
        "two-jobs-changed.py",
        "assert slowdowns.pop('each in a rack of its own') == [1, 1] and max(map(max, slowdowns.values())) > 1.3",
    ),
    (
        "docs/howto/beside-serving.md",
        "beside-serving.py",
        """
apart, near = (result.jobs for result in results.values())
assert apart[0].slowdown > 1.05 > 1.02 > apart[1].slowdown > 1 == near[0].slowdown == near[1].slowdown""",
    ),
    (
        "docs/howto/placement.md",
        "placements.py",
        "assert slowdowns['packed'] == [1, 1, 1] and max(slowdowns['two nodes swapped']) > 1.2",
    ),
    ("docs/howto/noise.md", "slow-card.py", "assert max(job.result.step_times) > 1.9 * min(job.result.step_times)"),
    (
        "docs/extending.md",
        "my_schedules.py",
        """
from simulator.run.simulate import simulate
from simulator.specs import load_scenario
scenarios = [load_scenario("quickstart", [f"training.schedule={name}"]).scenario for name in ("one-by-one", "1f1b")]
one_by_one, other = (simulate(scenario).metrics["mfu"] for scenario in scenarios)
assert one_by_one < other""",
    ),
    (
        "docs/extending.md",
        "my_algorithms.py",
        """
from simulator.collectives import cost_of
from simulator.fabric import build
from simulator.specs import load_spec
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.hardware import Cluster
machine = load_spec(Cluster, "clusters/dgx-h100")
profile = load_spec(CollectiveProfile, machine.collectives)
costs = [cost_of("all_gather", range(8), 1e4, build(machine), profile, name) for name in ("one-shot", "ring")]
one, ring = (cost.slowest for cost in costs)
assert 0 < one < ring""",
    ),
    (
        "docs/extending.md",
        "my_topology.py",
        """
from simulator.run.dispatch import simulate
from simulator.specs import load_scenario
star = "cluster.node.scale_up={kind: star, spoke: 100 GB/s, passage: 1 us}"
usual, joined = (simulate(load_scenario("quickstart", changes).scenario) for changes in ([], [star]))
assert joined.breakdown[0]["exposed_tp"] > 1.5 * usual.breakdown[0]["exposed_tp"] > 0""",
    ),
    (
        "docs/extending.md",
        "my_attention.py",
        """
from simulator.run.dispatch import simulate
from simulator.specs import load_scenario
steps, replicas = [], []
for name in ("keys-as-values", "grouped"):
    steps.append(simulate(load_scenario("quickstart", [f"model.attention={name}"]).scenario))
    served = load_scenario("serving/quickstart", [f"model.attention={name}", "requests.count=20"])
    replicas.append(simulate(served.scenario).service.replicas[0])
assert steps[0].metrics["step_time_s"] < steps[1].metrics["step_time_s"]
assert replicas[0].blocks > 1.9 * replicas[1].blocks""",
    ),
    (
        "docs/extending.md",
        "my_optimizer.py",
        """
from simulator.run.dispatch import simulate
from simulator.specs import load_scenario
scenarios = [load_scenario("quickstart", [f"+training.optimizer={name}"]).scenario for name in ("clipped", "adam")]
mine, usual = (simulate(scenario) for scenario in scenarios)
assert mine.metrics["peak_memory_bytes"] < usual.metrics["peak_memory_bytes"]""",
    ),
    (
        "docs/extending.md",
        "my_axis.py",
        """
from simulator.run.dispatch import simulate
from simulator.specs import load_scenario
changes = ["training.parallel.tp=1", "+training.parallel.fp=2", "+model.pattern.0.mlp=features"]
changes.append("stack.overlap_tensor=none")
step = simulate(load_scenario("quickstart", changes).scenario)
assert step.breakdown[0]["exposed_fp"] > 0""",
    ),
    (
        "docs/extending.md",
        "my_policies.py",
        """
from simulator.run.dispatch import simulate
from simulator.specs import load_scenario
mine, usual = (
    simulate(load_scenario("serving/quickstart", ["requests.count=200", "requests.arrivals.poisson=40 /s",
             f"serving.batching.policy={name}"]).scenario) for name in ("newest-first", "vllm-v1")
)
assert mine.metrics["completed"] == usual.metrics["completed"] == 200
assert mine.metrics["median_ttft_ms"] != usual.metrics["median_ttft_ms"]""",
    ),
    (
        "docs/extending.md",
        "my_perturbations.py",
        """
from simulator.run.dispatch import simulate
from simulator.specs import load_scenario
kind = "perturbations.0={kind: fading-links, links: [NIC 3], every: 0.2 s, loses: 20 %}"
slow, fading = (simulate(load_scenario("fading.yaml", change).scenario).jobs[0] for change in ([], [kind]))
steps = [job.result.step_times.tolist() for job in (slow, fading)]
assert min(slow.slowdown, fading.slowdown) > 1.1 and len(set(steps[0])) == 1
assert steps[1] == sorted(steps[1]) and steps[1][-1] > steps[1][0]""",
    ),
    ("docs/models/expert-exchange.md", "dispatch.py", ""),
    (
        "docs/extending.md",
        "my_routers.py",
        """
from simulator.run.dispatch import simulate
from simulator.specs import load_scenario
changes = ["requests.count=100", "+serving.replicas=2", "serving.router=fewest-tokens-first"]
result = simulate(load_scenario("serving/quickstart", changes).scenario)
assert set(result.service.requests.replica.tolist()) == {0, 1}""",
    ),
]
"""Python of pages: page, name of its block, and what must hold after it ran."""


@pytest.mark.parametrize(("page", "name", "then"), PYTHON, ids=[name for _, name, _ in PYTHON])
def test_python_of_pages_runs(page: str, name: str, then: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own, for it may register things; and prints what the page shows below it."""
    write_files(ROOT / page, tmp_path, monkeypatch)
    text = pages.read_page(ROOT / page).files[name]
    command, environment = [sys.executable, "-c", text + then], {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown = (ROOT / page).read_text(encoding="utf-8").partition(f"{text}```\n\n```text\n")[2].partition("```")[0]
    assert not shown or done.stdout == shown


def test_the_page_about_python_runs_from_top_to_bottom(tmp_path: Path) -> None:
    """Its blocks follow each other, as cells of a notebook do."""
    text = (DOCS / "howto" / "python.md").read_text(encoding="utf-8")
    cells = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"}
    command = [sys.executable, "-W", "error:::simulator", "-c", "\n".join(cells)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert len(cells) > 5
    assert done.returncode == 0, done.stderr


def test_all_python_of_pages_is_run() -> None:
    shown = {(name_of(page), name) for page in PAGES for name in pages.read_page(page).files if name.endswith(".py")}
    assert shown == {(page, name) for page, name, _ in PYTHON}


@every_page("page")
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    typed = re.findall(r"^(?:\$ )?make ([a-z-]+)", "\n".join(blocks(page)), re.MULTILINE)
    assert set(typed) <= targets


@every_page("page")
def test_arguments_in_shell_blocks_are_accepted(page: Path) -> None:
    """Lines of `sh` blocks are not run, since they may take minutes; they must be well formed."""
    for line in re.findall(rf"^{pages.PROGRAM} (.+)$", "\n".join(blocks(page)), re.MULTILINE):
        name, *rest = pages.words(line)
        assert name in COMMANDS
        parser_of(pages.PROGRAM, name, command(name)).parse_intermixed_args(rest)


def blocks(page: Path) -> list[str]:
    """The shell and console blocks of a page."""
    return re.findall(r"^```(?:sh|console)\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@every_page("page")
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```+$", "", read(page), flags=re.DOTALL | re.MULTILINE)
    broken = [link for link in LINK.findall(text) if not link.startswith(("http:", "https:")) and not leads(link, page)]
    assert not broken


@cache
def read(page: Path) -> str:
    """A page with its generated parts."""
    return generate_reference.filled(page.read_text(encoding="utf-8"))


def leads(link: str, page: Path) -> bool:
    """Whether there is a page or file at the end of a link, with the anchor that it names."""
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve()
    if not path or not (target.exists() or "." in path or "/" in path):  # a label, of any page
        return (anchor or path) in labels() | anchors(page)
    return target.exists() and (not anchor or anchor in anchors(target))


@cache
def labels() -> set[str]:
    """Explicit anchors of all pages."""
    return {label for page in PAGES for label in TARGET.findall(read(page))}


@cache
def anchors(page: Path) -> set[str]:
    """Anchors of a page: explicit ones, and headings as MyST makes anchors of them."""
    text = read(page)
    slugs = {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in HEADING.findall(text)}
    return slugs | set(TARGET.findall(text))


def test_the_readme_shows_what_the_program_prints() -> None:
    text = written_by_program.README.read_text(encoding="utf-8")
    assert written_by_program.refreshed(text) == text, "run `python docs/written_by_program.py`"


def test_the_readme_is_short() -> None:
    assert len(written_by_program.README.read_text(encoding="utf-8").splitlines()) < 120


def test_the_json_page_names_every_key() -> None:
    document = to_json(simulate(load_scenario("quickstart").scenario))
    text = (DOCS / "reference" / "json.md").read_text(encoding="utf-8")
    keys = [*document, *document["provenance"], *document["memory"][0], *document["links"][0], *document["classes"][0]]
    assert not [key for key in keys if f"`{key}`" not in text and key not in ("fold_error_bound",)]
    assert set(document["metrics"]) <= set(METRICS)


def test_every_part_of_the_breakdown_is_explained() -> None:
    from simulator.run.parts import PARTS

    text = (DOCS / "models" / "training.md").read_text(encoding="utf-8")
    assert not [part for part in PARTS if f"| `{part}` |" not in text]


@pytest.mark.parametrize("page", ["models/training.md", "decisions/0002-folding.md"])
def test_pages_know_from_where_on_folding_goes_by_tiers(page: str) -> None:
    assert f"{LARGE:,} devices" in (DOCS / page).read_text(encoding="utf-8")


def test_every_generated_part_is_on_a_page() -> None:
    """And every marker names a part."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert set(re.findall(r"<!-- generated: (\w+) -->", text)) == set(generate_reference.PARTS)


def test_every_page_can_be_reached() -> None:
    """By a table of contents, explicit or by pattern."""
    listed = {DOCS / "index.md"}
    for page in PAGES:
        for entries in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            for entry in entries.split("\n"):
                if entry and not entry.startswith(":"):
                    listed |= set(page.parent.glob(f"{entry}.md"))
    assert set(PAGES[1:]) == listed


@pytest.mark.slow
@pytest.mark.parametrize("notebooks", ["off", "cache"])
def test_the_site_builds_without_a_warning(notebooks: str, tmp_path: Path) -> None:
    missing = [name for name in ("sphinx", "furo", "myst_nb") if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-n",
        "-q",
        "-D",
        f"nb_execution_mode={notebooks}",
        "-b",
        "html",
        str(DOCS),
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr  # a command that exits with another code than its page says is a warning
    assert_works_offline(tmp_path)
    assert_terminals_are_as_wide_as_their_letters_allow(tmp_path)


def assert_works_offline(site: Path) -> None:
    """Nothing that a page shows is loaded from anywhere else; links to follow are no loading."""
    loading = re.compile(
        r"""<(?:script|img|iframe|source|video|object)\b[^>]*\b(?:src|data)=["']?(?:https?:)?//[^"'\s>]*"""
        r"""|<link\b[^>]*\bhref=["']?(?:https?:)?//[^"'\s>]*"""
        r"""|(?:@import\s+|url\()["']?(?:https?:)?//[^"')\s]*"""
    )
    files = [path for path in site.rglob("*") if path.suffix in (".html", ".css")]
    assert {path.suffix for path in files} == {".html", ".css"}
    found = {path.relative_to(site): loading.findall(path.read_text(encoding="utf-8")) for path in files}
    assert {path: loads for path, loads in found.items() if loads} == {}
    assert "<mroot>" in (site / "models" / "compute.html").read_text(encoding="utf-8"), "formulas are no MathML"


def assert_terminals_are_as_wide_as_their_letters_allow(site: Path) -> None:
    """`static/site.css` makes room for as many columns as the program prints; commands and messages are wrapped."""
    (columns,) = re.findall(r"\.terminal pre .*100cqi.* / (\d+) / ", (site / "_static/site.css").read_text())
    shown = re.compile(r'<div class="[^"]*\bterminal\b[^"]*">.*?<pre[^>]*>(.*?)</pre>', re.DOTALL)
    pages_of_site = [path.read_text(encoding="utf-8") for path in site.rglob("*.html")]
    lines = [
        html.unescape(re.sub(r"<[^>]+>", "", line))
        for page in pages_of_site
        for block in shown.findall(page)
        for line in block.splitlines()
    ]
    assert len(lines) > 100
    assert [line for line in lines if len(line) > int(columns) and not line.startswith(("$ ", "clustersim: "))] == []


def test_plots_and_frames_of_notebooks_suit_phones_and_dark_pages() -> None:
    """Plots scroll at a width at which their words can be read and turn dark with the page; frames have its lines."""
    rules = re.findall(
        r"([^{}]+)\{([^{}]*)\}", re.sub(r"/\*.*?\*/", "", (DOCS / "static/site.css").read_text(), flags=re.S)
    )
    style = {" ".join(selector.split()): " ".join(said.split()) for selector, said in rules}
    assert "overflow-x: auto" in style[".math, .cell_output, .schedule"]
    (least,) = re.findall(r"min-width: (\d+)rem", style[".cell_output img"])
    assert int(least) * 16 >= 600
    dark = [said for selector, said in style.items() if "data-theme" in selector and selector.endswith("article img")]
    assert len(dark) == 2 and all("invert" in said for said in dark)  # chosen by the reader, and by the system
    assert "border: 0" in style[".cell_output table.dataframe"]
    assert "var(--color-background-border)" in style[".cell_output table.dataframe :is(th, td)"]


def test_a_formula_that_is_not_understood_is_named() -> None:
    with pytest.raises(ValueError, match=r"nonsense.*: x \\nonsense y"):
        mathml.mathml(nodes.math("", r"x \nonsense y"), as_block=False)


@pytest.mark.parametrize(
    ("name", "words"), [("start.md", ("Ground", "stall", "fold")), ("start-serving.md", ("Ground",))]
)
def test_the_first_pages_explain_the_words_of_the_first_output(name: str, words: tuple[str, ...]) -> None:
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert all(f"**{word}**" in text for word in words)
