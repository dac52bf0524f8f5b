"""Shell scripts as they would run, with nothing run: values, arrays, branches, and what stays unknown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.errors import InputError
from simulator.interop.shell.conditions import arithmetic, outcome
from simulator.interop.shell.script import MOST_LETTERS, Script, words_of


def words(text: str, **given: str) -> list[str]:
    """The words of the last command of a script; `?` where one is not known."""
    script = Script(text, given=given)
    return ["?" if script.why(one.text) else one.text for one in words_of(script.calls[-1].fields)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("run --a 1 \\\n  --b 'x y' # c", ["run", "--a", "1", "--b", "x y"]),
        ("A=(\n --x 1 # why\n --y 2\n)\nrun ${A[@]}", ["run", "--x", "1", "--y", "2"]),
        ('A=(--x "1 2")\nA+=(--y)\nrun "${A[@]}"', ["run", "--x", "1 2", "--y"]),
        ('N=4\nO=" --n $N \\\n --m ${N}"\nrun $O', ["run", "--n", "4", "--m", "4"]),
        ("N=$((2*(3+5)/4))\nrun $N ${M:-$N} ${K:-'a b'}", ["run", "4", "4", "a", "b"]),
        ("G=8 N=16\nW=$(($G*$N))\nrun $W", ["run", "128"]),
        ("run $1 ${X}y `date` $(date +%s) ${A%%.*}", ["run", "?", "?", "?", "?", "?"]),
        ("run > log 2>&1 --x 3 < in &", ["run", "--x", "3"]),
        ("A=(1 2)\nrun ${A[1]} ${A[@@]} ${A[0*]}", ["run", "2", "?", "?"]),
        ("cat <<EOF\n run --no\nEOF\nrun --yes", ["run", "--yes"]),
        ("A=1 B=2 run $A", ["run", "?"]),
        ('srun bash -c "python t.py --n 3 --m"', ["srun", "bash", "-c", "python", "t.py", "--n", "3", "--m"]),
        ("export A=3; run $A", ["run", "3"]),
        ("for A in 7; do run $A; done", ["run", "7"]),
        ("for A in 7 8; do run $A; done", ["?", "?"]),
        ("[ -z '' ] && A=1\n[ x = y ] && A=2\nrun $A", ["run", "1"]),
        ("cd x || exit 1\nrun 5", ["run", "5"]),
    ],
)
def test_words(text: str, wanted: list[str]) -> None:
    assert words(text) == wanted


BRANCHES = """
if [ "$SIZE" = 7B ] && [[ 1 -lt 2 ]]; then H=1
elif [[ $SIZE == "13B" || $SIZE == 14B ]]; then
  H=2
else
  H=3
fi
case $SIZE in
  7B|13B) C=1 ;;
  *) C=2 ;;
esac
run $H $C
"""


@pytest.mark.parametrize(("size", "wanted"), [("7B", "11"), ("13B", "21"), ("14B", "22"), ("70B", "32")])
def test_branches_follow_what_is_given(size: str, wanted: str) -> None:
    assert words(BRANCHES, SIZE=size) == ["run", *wanted]


def test_branches_on_what_is_not_known_leave_their_values_unknown() -> None:
    assert words(BRANCHES) == ["run", "?", "?"]
    assert words("A=1\nif [ $X ]; then A=1; fi\nrun $A") == ["run", "1"]
    assert words("if [ $X ]; then A=(--b 2); fi\nrun ${A[@]} --c") == ["run", "?", "?", "--c"]


def test_what_is_given_overrules_the_script() -> None:
    assert words("N=4\nrun $N $1", N="8", **{"1": "x"}) == ["run", "8", "x"]


def test_why_something_is_not_known() -> None:
    script = Script("N=$(nproc)\nrun $N")
    assert (
        script.why(script.calls[0].fields[1].text)
        == "line 1 runs a command for it, `$(nproc)`, and nothing is run here"
    )


@pytest.mark.parametrize("text", ["run 'x", 'A="x\ny', "A=(1\n2", "run $(a", "run ${a"])
def test_truncated_scripts(text: str) -> None:
    with pytest.raises(InputError, match="never closed"):
        Script(text)


def test_variables_that_double_are_refused() -> None:
    with pytest.raises(InputError, match=f"{MOST_LETTERS:,} letters"):
        Script("A=xxxxxxxxxxxxxxxx\n" + "A=$A$A\n" * 40)


@given(st.text(alphabet="ab$(){}[]'\"`\\ \n=+;&|<>#-01:", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        script = Script(text)
    except InputError:
        return
    for call in script.calls:
        words_of(call.fields)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2*3+1", 7),
        ("-7", -7),
        ("7/2", 3),
        ("9**9", None),
        ("1/0", None),
        ("a", None),
        ("9" * 400, None),
        ("(" * 300, None),
    ],
)
def test_arithmetic(text: str, value: int | None) -> None:
    assert arithmetic(text) == value


def test_tests() -> None:
    assert outcome(["[", "!", "-n", "", "]"]) is True
    assert outcome(["[[", "8", "-ge", "9", "]]"]) is False
    assert outcome(["[", "-f", "x", "]"]) is None
