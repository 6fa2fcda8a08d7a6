"""`attn compare`"""

from typing import Annotated

import typer

from attncli.cli.groups import grouped
from attncli.cli.options import Option, OutputOptions
from attncli.errors import UsageError

EXAMPLES = """
attn compare main.json branch.json                          what moved, in spreads of both
attn compare step1000.json step2000.json --top 50 --format markdown
attn compare old.json new.json --fail-if 'change_in_spreads[measured=sink] > 3'
"""


@grouped
def compare(
    *,
    old: Annotated[
        str, typer.Argument(metavar="A", help="A saved JSON report.", show_default=False)
    ],
    new: Annotated[
        str, typer.Argument(metavar="B", help="Another one, - is stdin.", show_default=False)
    ],
    top: Annotated[int, Option(metavar="N", help="Changes to show. [default: 20]")] = 20,
    output: OutputOptions,
) -> int:
    """What moved between two saved reports, and is it more than noise?

    Every number that both have, sorted by its change in spreads of both; rows that one of them lacks are said, and so
    is whether the weights are the same. Needs no model.
    """
    from attncli.cli.provenance import with_provenance
    from attncli.cli.writer import emit, prepare
    from attncli.reports import read
    from attncli.studies.compare import compare as study

    conditions = prepare(output)
    if top < 0:
        raise UsageError(f"--top must be 0 or more, not {top}.")
    report = study(read(old), read(new), (old, new), top)
    return emit(with_provenance(report), output, conditions)
