"""`attn head-capacity`"""

from attncli.declare.option_declarations import Applies, declare_argument, declare_option
from attncli.errors import require_known_names
from attncli.io.tensor_file_extensions import require_safetensors_extension
from attncli.options.model_and_input import CheckpointOptions, InputOptions
from attncli.options.pattern_approximation import (
    MethodOptions,
    PatternOptions,
    PrecisionOptions,
    RandomDrawOptions,
    build_fit_request,
)
from attncli.options.value_completion import complete_random_model_name, make_name_completer
from attncli.python.questions import RunContext, question
from attncli.records import Report

EXAMPLES = """
attn head-capacity ./minilm --length 64                                      # every head
attn head-capacity ./minilm --head 0.0 --pattern previous --pattern strided:8 --length 64
attn head-capacity ./minilm --head 0.2 --inputs embeddings --pattern previous --length 24
attn head-capacity ./minilm --head 0.2 --pattern previous -o head.safetensors
"""

FREE, EMBEDDINGS = "free", "embeddings"
"""What the inputs of a head are built from."""


@question(own=("save_module",))
def head_capacity(
    *,
    source: str = declare_argument(
        metavar="MODEL",
        help="A saved model: org/name[@revision] or ./dir; for all heads also random:ARCH[?layers=2].",
        complete=complete_random_model_name,
    ),
    head: str | None = declare_option(
        metavar="LAYER.HEAD",
        usual=True,
        help="One head: the inputs that make it show --pattern, after rounding. [default: survey all heads]",
    ),
    inputs: str = declare_option(
        default=FREE,
        metavar="free|embeddings",
        applies=Applies(needs=("head",), why="`inputs='embeddings'` goes with `head='0.HEAD'`."),
        complete=make_name_completer(lambda: [FREE, EMBEDDINGS]),
        help=(
            "For a head of layer 0: try any vectors, or also the embeddings of the model's own tokens. "
            "[default: free]"
        ),
    ),
    patterns: PatternOptions,
    files: CheckpointOptions,
    texts: InputOptions,
    search: MethodOptions,
    precision: PrecisionOptions,
    run: RandomDrawOptions,
    how: RunContext,
) -> Report:
    """Which patterns could each trained head show, what head dimension do its own maps need, and what moves them?

    Without --head, for every head, on texts cut to --length (128 by default): how narrow a module reproduces its own
    map, how many random patterns it could show, and how far the input moves its map. With --head: the inputs that make
    that head show the patterns, and how well they still do after rounding.
    """
    from attncli.commands.head_capacity import run as runs

    runs.refuse_gates_on_other_metrics(how.conditions)
    if how.save_module is not None:
        require_safetensors_extension(how.save_module)
    require_known_names("inputs", [inputs], (FREE, EMBEDDINGS))
    request = build_fit_request(patterns, search, precision)
    if head is None:
        return runs.measure_capacity_of_all_heads(
            source, patterns, texts, search, request, run=run, files=files, how=how
        )
    return runs.find_pattern_inputs_of_head(
        source,
        head,
        inputs == EMBEDDINGS,
        patterns,
        texts,
        search=search,
        request=request,
        run=run,
        files=files,
        how=how,
    )
