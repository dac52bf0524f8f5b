"""Tables of timed kernels as Parquet, read by columns: one's own, or the products of ai-dynamo/aiconfigurator.

One's own table has the columns of a CSV table (see `rows.benchmarks`); device, accelerator and date may stand in the
metadata of its schema. A table of aiconfigurator has `gemm_dtype, m, n, k, latency` (ms) and the device in a column;
products of equal shape count once, by their median, and an even sample of shapes is taken. Its fp8 times hold a cast of
the inputs and its attention the writing of the cache, which only the fit of all tables of a device tells apart, so they
are refused here. Needs pyarrow (the extra `parquet`).
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from stat import S_ISREG
from statistics import median
from typing import Any, NamedTuple

from simulator.errors import InputError, Problem
from simulator.interop.rows.accelerators import card

MOST = 1_000_000
"""Rows of a table."""
MAGIC = b"PAR1"
"""How every Parquet file begins."""
DRAWN = 2000
"""Shapes of a table of aiconfigurator that are taken, evenly over its shapes in their order."""
THEIRS = ("gemm_dtype", "m", "n", "k", "latency")
FORMATS: Mapping[str, str] = {"bfloat16": "bf16", "float16": "fp16"}
SAID = ("device", "accelerator", "date")
WHOLE = "write `calibrate kernels TABLES ROWS` with the folder of all tables"


class Table(NamedTuple):
    """What a file says."""

    said: Mapping[str, str]
    """Device, accelerator and date, as far as they are known."""
    rows: Iterator[tuple[int, Mapping[str, Any]]]
    """(number from 1, cells by column)."""
    left: Sequence[str]
    """Why other rows are not used, with how many they are."""


def is_parquet(path: str | Path) -> bool:
    """Whether a file is called or begins like Parquet; a file that cannot be opened is not."""
    if str(path).lower().endswith((".parquet", ".pq")):
        return True
    try:
        if not S_ISREG(Path(path).stat().st_mode):
            return False
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):  # whoever reads its lines says why
        return False


def read_parquet(path: str | Path, known: Sequence[str]) -> Table:
    """A table with columns `op` and `time_s`, of which those `known` are read, or one of aiconfigurator's products;
    InputError where it is neither or cannot be read."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        hint = "install it: pip install 'clustersim[calibrate]', or write CSV"
        raise InputError(Problem("Parquet needs pyarrow, which is not installed", file=str(path), hint=hint)) from None
    try:
        if not S_ISREG(Path(path).stat().st_mode):
            raise InputError(Problem("is no regular file", file=str(path)))
        with parquet.ParquetFile(path) as file:
            names, rows, metadata = file.schema_arrow.names, file.metadata.num_rows, file.schema_arrow.metadata or {}
            if rows > MOST:
                raise InputError(Problem(f"more than {MOST:,} rows", file=str(path), hint="split the table"))
            theirs = "time_s" not in names and set(THEIRS) <= set(names)
            wanted = (*THEIRS, "device") if theirs else known
            _check(path, names, theirs)
            table = file.read(columns=[name for name in names if name in wanted])
            columns = {name: table.column(name).to_pylist() for name in table.column_names}
    except OSError as error:
        raise InputError(Problem(f"cannot be read: {error.strerror or str(error)[:200]}", file=str(path))) from None
    except (ValueError, pyarrow.ArrowException) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise InputError(Problem(f"is no Parquet table that can be read: {reason[:200]}", file=str(path))) from None
    if theirs:
        return _products(path, columns)
    said = {key: metadata[key.encode()].decode(errors="replace") for key in SAID if key.encode() in metadata}
    return Table(said, _rows(columns), ())


def _check(path: str | Path, names: Sequence[str], theirs: bool) -> None:
    """InputError where columns do not say what a row is."""
    if len(set(names)) < len(names):
        said = "two columns have one name"
        raise InputError(Problem(said, file=str(path), hint="for example op, dtype, m, n, k, time_s"))
    if theirs:
        return
    if "latency" in names and "time_s" not in names:
        said = "a table of aiconfigurator that has no products: its fit needs other tables too"
        raise InputError(Problem(said, file=str(path), hint=WHOLE))
    missing = [name for name in ("op", "time_s") if name not in names]
    if missing:
        said = f"no column `{missing[0]}`"
        raise InputError(Problem(said, file=str(path), hint="for example op, dtype, m, n, k, time_s"))


def _rows(columns: Mapping[str, Sequence[Any]]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    names = list(columns)
    for number, cells in enumerate(zip(*columns.values(), strict=True), 1):
        yield number, {name: cell for name, cell in zip(names, cells, strict=True) if cell is not None}


def _products(path: str | Path, columns: Mapping[str, Sequence[Any]]) -> Table:
    """Products of a table of aiconfigurator, one a shape and format."""
    devices = sorted(set(map(str, columns.get("device", ()))))
    if len(devices) > 1:
        said = f"products of several devices: {', '.join(devices)[:200]}"
        raise InputError(Problem(said, file=str(path), hint="a table of one device"))
    found: dict[tuple[Any, ...], list[tuple[int, Any]]] = defaultdict(list)
    left: Counter[str] = Counter()
    cells = zip(*(columns[name] for name in THEIRS), strict=True)
    for number, (dtype, m, n, k, latency) in enumerate(cells, 1):
        if not isinstance(dtype, str) or dtype not in FORMATS:
            left[f"products in {str(dtype)[:20]}, whose times hold casts of the inputs or are no product alone"] += 1
        elif not all(isinstance(side, int) for side in (m, n, k)) or not isinstance(latency, float):
            left["products without whole sides and a time"] += 1
        elif m > 16 and m % 16:
            left["products of more than 16 rows that are no multiple of 16"] += 1
        else:
            found[FORMATS[dtype], m, n, k].append((number, latency))
    shapes = sorted(found)
    if len(shapes) > DRAWN:
        left[f"shapes beyond the {DRAWN:,} drawn evenly"] = len(shapes) - DRAWN
        shapes = [shapes[i * len(shapes) // DRAWN] for i in range(DRAWN)]
    on = {"device": devices[0], "accelerator": card(devices[0])[0] or ""} if devices else {}
    return Table(on, _timed(found, shapes), [f"{count:,} {why}" for why, count in left.items()])


def _timed(
    found: Mapping[tuple[Any, ...], Sequence[tuple[int, float]]], shapes: Sequence[tuple[Any, ...]]
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Rows of products with the median of their times, in seconds."""
    for dtype, m, n, k in shapes:
        some = found[dtype, m, n, k]
        seconds = 1e-3 * median(latency for _, latency in some)
        yield some[0][0], {"op": "gemm", "dtype": dtype, "m": m, "n": n, "k": k, "time_s": seconds}
