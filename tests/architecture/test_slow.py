"""What the list of slow tests names is there."""

from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_slow_case_is_one_of_a_test_that_exists() -> None:
    first, *names = (ROOT / "tests" / "slow.txt").read_text(encoding="utf-8").splitlines()
    assert first.startswith("# ")
    assert len(names) == len(set(names))
    for name in names:
        file, test = name.split("[")[0].split("::")
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), name
