"""Texts and numbers that are read without pydantic: as typer reads them with it."""

import subprocess
import sys
from functools import partial
from typing import Any

import pytest
import typer
from commands import PLAIN

from attncli.cli.typer_options import ValueReader

TEXTS = ["", "5", "0", "-7", "007", "+5", " 5 ", "5.0", "1_000", "٣", "1e3", "2.50", "-.5", "inf", "nan", "x", "9" * 17, "9" * 40, "0.1", "123456789.987654321"]  # fmt: skip


def options_of_typer() -> dict[str, Any]:
    def command(
        number: int | None = None,
        factor: float | None = None,
        text: str | None = None,
        texts: list[str] | None = None,
        switch: bool | None = None,
    ) -> None: ...

    app = typer.Typer(add_completion=False)
    app.command()(command)
    return {one.name: one for one in typer.main.get_command(app).params}


def read(option: Any, value: Any) -> Any:
    """The value and its type, or what typer says of it."""
    try:
        found = option.process_value(None, value)
    except typer.TyperException as error:
        return str(error)
    return type(found), repr(found)


@pytest.mark.parametrize("name", ["number", "factor", "text", "texts", "switch"])
def test_every_value_is_what_typer_reads(name: str) -> None:
    typers, own = options_of_typer()[name], options_of_typer()[name]
    own.get_runtime_param = partial(ValueReader, own.get_runtime_param)
    given = [None, [], ["a", "b"], ("a",)] if name == "texts" else [None, *TEXTS]
    for value in given:
        assert read(own, value) == read(typers, value), value


def test_plain_values_do_not_reach_typer() -> None:
    option = options_of_typer()["number"]
    reader = ValueReader(None)  # type: ignore[arg-type]
    assert reader.coerce("12", option, None) == 12
    with pytest.raises(TypeError):
        reader.coerce("1_2", option, None)


@pytest.mark.slow
@pytest.mark.parametrize("line", ["rank-collapse --layers 2 --seeds 1", "list formats"])
def test_a_run_imports_no_pydantic(line: str) -> None:
    program = (
        "import sys\nfrom attncli.cli.main import run_command_line\n"
        f"code = run_command_line({line.split()})\n"
        "sys.exit(code or 'pydantic' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=PLAIN, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
