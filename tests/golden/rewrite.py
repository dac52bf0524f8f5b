"""Write the golden files anew and print what moved: `python -m tests.golden.rewrite [NAME ...]`.

Without names all scenarios are recorded, and records of scenarios that are gone are removed.
"""

import json
import sys

from tests.golden.record import GOLDEN, differences, golden_file, names, read, record


def main(chosen: list[str]) -> int:
    """Record the chosen scenarios, or all; 2 for a name that is none."""
    unknown = sorted(set(chosen) - set(names()))
    if unknown:
        print(f"no such scenario: {', '.join(unknown)}", file=sys.stderr)
        return 2
    for name in chosen or names():
        _rewrite(name)
    if not chosen:
        _remove_orphans()
    return 0


def _rewrite(name: str) -> None:
    old, new = read(name), record(name)
    moved = ["new"] if old is None else list(differences(old, new))
    print("\n  ".join([f"{name}: {'unchanged' if not moved else ''}", *moved]))
    if moved:
        path = golden_file(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(_rounded(new), indent=1) + "\n", encoding="utf-8")


def _rounded(value: object) -> object:
    """Twelve digits, so that files written on two platforms differ only where answers do."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return float(f"{value:.12g}") if isinstance(value, float) else value


def _remove_orphans() -> None:
    known = {golden_file(name) for name in names()}
    for path in sorted(GOLDEN.rglob("*.json")):
        if path not in known:
            print(f"{path.relative_to(GOLDEN)}: removed, its scenario is gone")
            path.unlink()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
