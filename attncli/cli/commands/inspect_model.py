"""`attn inspect-model`"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from attncli.cli.config.defaults import before_the_work
from attncli.cli.terminal import grouped
from attncli.options.declared import Argument, Option
from attncli.options.head_options import HeadOptions
from attncli.options.model_options import InputOptions, ModelOptions
from attncli.options.shared import OutputOptions, completion, separated
from attncli.processes.saying import say

if TYPE_CHECKING:
    from attncli.gates import Condition

EXAMPLES = """
attn inspect-model gpt2                                     what each head does, on one screen
attn inspect-model ./checkpoint --text-file essays.txt --with-random-init -o heads.json
attn inspect-model ./checkpoint --metric attention,roles --top 10 --sort induction
attn inspect-model random:llama --random-tokens 512 --metric entropy_normalised --layers 0-1
attn inspect-model ./checkpoint --heads 5.1,5.3 --plot heads.png --save-maps maps.safetensors
attn inspect-model maps.safetensors --metric spectra
attn inspect-model ./checkpoint --weights-only --metric qk_stable_rank,ov_stable_rank
attn inspect-model ./checkpoint --text 'A dog barked at her.' --attribute dog
attn inspect-model ./checkpoint --fail-if 'mean(sink) > 0.5'
"""


def complete() -> list[str]:
    """Names of metrics and groups."""
    from attncli.studies.heads.head_metrics import GROUPS, members

    return [*GROUPS, *(name for group in members().values() for name in group)]


@grouped
def inspect_model(
    *,
    source: Annotated[
        str,
        Argument(
            metavar="MODEL",
            help="org/name[@revision], ./dir, random:ARCH[?layers=2], or maps.safetensors of --save-maps.",
        ),
    ],
    metric: Annotated[
        list[str] | None,
        Option(
            metavar="NAME,…",
            complete=completion(complete),
            help="Metrics or groups: attention, spectra, roles, states, all, or weights with --weights-only. "
            "[default: what tells the heads' roles]",
        ),
    ] = None,
    with_random_init: Annotated[
        bool,
        Option("--with-random-init", help="Beside each number that of the same model, untrained."),
    ] = False,
    with_shuffled_text: Annotated[
        bool,
        Option(
            "--with-shuffled-text", help="Beside each number that of the same tokens, shuffled."
        ),
    ] = False,
    tokens: Annotated[
        int | None, Option(metavar="N", help="Longest text, or length of random ones.")
    ] = None,
    weights_only: Annotated[
        bool,
        Option("--weights-only", help="No run and no input: spectra of each head's weights."),
    ] = False,
    save_maps: Annotated[
        Path | None,
        Option(
            metavar="FILE.safetensors",
            help="The first text's maps of the heads that --layers and --heads leave.",
        ),
    ] = None,
    attribute: Annotated[
        str | None,
        Option(
            metavar="TOKEN",
            help="Which input tokens this one's last state comes from: a position, negative from the end, or a piece "
            "of the text. [table: the --top N by share]",
        ),
    ] = None,
    strip_memory: Annotated[
        int | None,
        Option(
            metavar="MIB", help="At most, for the rows of maps in work at a time. [default: 64]"
        ),
    ] = None,
    seed: Annotated[int, Option(help="Of random tokens, weights and shuffles. [default: 0]")] = 0,
    heads: HeadOptions,
    model: ModelOptions,
    inputs: InputOptions,
    output: OutputOptions,
) -> int:
    """What does each head and layer do: where it looks, how evenly, in which role, and is the model sick?

    Every number stands beside that of even attention over the same visible keys. Maps are looked at in strips while
    the model runs and are never kept, so length costs time and no memory.
    """
    from attncli.api.provenance import with_provenance
    from attncli.api.progress import progress_bar
    from attncli.cli.writer import emit, prepare

    conditions = prepare(output, save_maps)
    names = separated(metric or [])
    own = {
        "with_random_init": with_random_init,
        "with_shuffled_text": with_shuffled_text,
        "save_maps": save_maps is not None,
        "strip_memory": strip_memory is not None,
    }
    others = [name for name, given in own.items() if given]
    from attncli.api import network_sources as sources
    from attncli.api.opened_models import refuse_at_once

    asker = "attn inspect-model --weights-only" if weights_only else "attn inspect-model"
    subject = sources.named(source, asker, output.output, save_maps)
    if not weights_only:
        refuse_at_once(subject)
    if attribute is not None:
        from attncli.api.attribution_studies import attribution_study

        others += [*["metric"] * bool(names), *["weights_only"] * weights_only]
        others += [name for name in heads.given() if name != "top"]
        study = attribution_study(
            subject, attribute, heads.top, others, conditions, model, inputs, tokens, seed
        )
    elif weights_only:
        from attncli.api.weight_studies import weights_study

        others += [*["tokens"] * (tokens is not None)]
        others += [name for name in (*model.given(), *inputs.given()) if name != "offline"]
        study = weights_study(subject, names, heads, model.offline, others)
    else:
        from attncli.api.head_studies import Asked, study_of

        refuse_gates(conditions, names)
        draws_maps = output.plot is not None and bool(heads.heads)
        asked = Asked(
            subject,
            names,
            with_random_init,
            with_shuffled_text,
            tokens,
            seed,
            save_maps,
            draws_maps,
            strip_memory,
        )
        study = study_of(asked, heads, model, inputs, note(output))
    before_the_work()
    with progress_bar(output.shows_progress) as progress:
        report = study(progress=progress)
    return emit(with_provenance(report), output, conditions)


def refuse_gates(conditions: "Sequence[Condition]", metric: Sequence[str]) -> None:
    """On metrics that this run does not measure, said before the model is loaded."""
    from attncli.gates import refuse_unmeasured
    from attncli.studies.heads.head_metrics import choose, members

    if conditions:
        others = [name for group in members().values() for name in group]
        refuse_unmeasured(conditions, choose(metric).definitions(), others)


def note(output: OutputOptions) -> Callable[[str], None]:
    """Sentences for people, on stderr, unless they ask for silence."""

    return (lambda sentence: None) if output.quiet else say
