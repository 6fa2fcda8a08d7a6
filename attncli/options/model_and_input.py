"""Options of the commands that run a model: which one, how it is loaded, and its input."""

from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import TYPE_CHECKING

from attncli.declare.dry_run import STAGE
from attncli.declare.option_declarations import (
    ANY_MODEL,
    RUNS_CODE,
    Applies,
    declare_argument,
    declare_option,
    join_number_lists_with_commas,
)
from attncli.declare.option_value_conversion import INPUT
from attncli.distributed_ranks import read_launch_environment
from attncli.errors import UsageError
from attncli.model_and_file_sources import MODELS, Source
from attncli.options.run_and_output import validate_seed
from attncli.options.value_completion import complete_random_model_name

if TYPE_CHECKING:
    from attncli.models.files.model_folder import FetchSettings
    from attncli.models.inputs.input_options import RequestedInput
    from attncli.models.loading.load_options import LoadOptions

OF_MODELS = Applies(to=ANY_MODEL)
OF_TEXTS = (
    OF_MODELS,
    Applies(
        to=MODELS, why="{source} reads images or sounds, not text: leave the text options out."
    ),
)
OF_THE_HUB = Applies(
    to=tuple(kind for kind in MODELS if kind != "folder"),
    why="`revision` is for Hub models: {source} has none.",
)
KINDS_OF_INPUT = ("text", "text_file", "token_ids", "random_tokens")
NOT_IN_MEMORY = Applies(
    to=tuple(kind for kind in ANY_MODEL if kind != "live"),
    unless=("cpu",),
    why="a live module is measured where it is: move it, or leave {name} out.",
)
CHECKPOINTS = tuple(kind for kind in ANY_MODEL if kind != "random")
ONE_PROCESS = "`tensor_parallel` splits a model over processes: start them with `torchrun`."
PLACES = ("device", "device_map", "tensor_parallel")
"""Where the model is loaded: on one device, on several, or partly on each process's own."""

model_option = partial(declare_option, panel="Model", applies=OF_MODELS, of_any_model=True)
input_option = partial(declare_option, panel=INPUT, applies=OF_MODELS, of_any_model=True)

HALF = ("bfloat16", "float16")

AUTO, EXACTLY, PLAIN = "auto", "exact", "float64"
OF_FILES = ("revision", "offline", "allow_pickle")
"""Options of a checkpoint's files, also without loading a model."""

ARITHMETICS = (AUTO, EXACTLY, PLAIN)
"""How residuals of a model are computed."""


@dataclass(frozen=True)
class FetchOptions:
    """Where a model's files come from."""

    revision: str | None = model_option(
        metavar="NAME",
        applies=(OF_MODELS, OF_THE_HUB),
        help="Revision of a Hub model; org/name@revision means the same.",
    )
    offline: bool = model_option(
        default=False, help="Use only files that are already in the cache."
    )

    def list_options_that_are_set(self) -> list[str]:
        """Names of the options that the command line sets."""
        return [name for name, value in asdict(self).items() if value]

    def build_fetch_settings(self) -> "FetchSettings":
        from attncli.models.files.model_folder import FetchSettings

        known = {field.name for field in fields(self)} & set(OF_FILES)
        return FetchSettings(**{name: getattr(self, name) for name in known})


@dataclass(frozen=True)
class WeightFileOptions(FetchOptions):
    """Which files of weights are read, without a model of them."""

    allow_pickle: bool = model_option(
        default=False,
        applies=(OF_MODELS, RUNS_CODE),
        help="Also read .bin files (pickle), not only safetensors.",
    )


@dataclass(frozen=True)
class CheckpointOptions(WeightFileOptions):
    """Which files of a model are read, and which are trusted: none by default."""

    allow_missing: bool = model_option(
        default=False, help="Draw weights that the checkpoint lacks at random, from --seed."
    )
    trust_remote_code: bool = model_option(
        default=False,
        applies=(OF_MODELS, RUNS_CODE),
        help="Run Python code that comes with the checkpoint.",
    )

    def list_options_needing_model_run(self) -> list[str]:
        """Options that do not apply where files are read and no model is run."""
        return [name for name in self.list_options_that_are_set() if name not in OF_FILES]

    def build_model_load_options(self, seed: int) -> "LoadOptions":
        from attncli.models.loading.load_options import LoadOptions

        return LoadOptions(**asdict(self), seed=validate_seed(seed))


@dataclass(frozen=True)
class PatternModelOptions(CheckpointOptions):
    """The same for models that patterns name, if any; `offline` always applies."""

    offline: bool = model_option(
        default=False, applies=(), help="Use only files that are already in the cache."
    )


@dataclass(frozen=True)
class WholeModelOptions(CheckpointOptions):
    """How a model is loaded, in every process the whole of it."""

    dtype: str | None = model_option(
        metavar="float64|float32|bfloat16|float16",
        help="What the model runs in. [default: the file's own, but float32 for float16 on a CPU, which takes 2 to 5 times "
        "as long; in rank-collapse float64 if that fits in memory]",
    )
    device: str | None = model_option(
        metavar="cpu|cuda[:N]|mps",
        applies=(OF_MODELS, NOT_IN_MEMORY),
        help="Device to run on. [default: cpu]",
    )
    device_map: str | None = model_option(
        metavar="auto",
        applies=(
            Applies(to=ANY_MODEL, excludes=PLACES[:1]),
            NOT_IN_MEMORY,
            Applies(
                to=CHECKPOINTS,
                why="{name} spreads checkpoints: a random model is built on one `device`.",
            ),
        ),
        help="Distribute the model over devices with accelerate (extra `big`).",
    )

    def build_model_load_options(self, seed: int) -> "LoadOptions":
        from attncli.models.loading.load_options import LoadOptions

        self.refuse_wrong_process_count()
        settings = asdict(self) | {"device": self.device_of_rank()}
        return LoadOptions(**settings, seed=validate_seed(seed))

    def refuse_wrong_process_count(self) -> None:
        """Refuse options that need several processes in one, or one process in several."""
        if self.device_map is not None and read_launch_environment().is_distributed:
            raise UsageError(
                "`device_map` takes all devices for one process: leave it out under torchrun, where `tensor_parallel` "
                "splits a model, or start one process.",
                about=["device_map"],
            )

    def refuse_half_precision(self) -> None:
        """Refuse half precision where terms are measured, which are differences of larger numbers."""
        if self.dtype in HALF:
            raise UsageError(
                f"`dtype={self.dtype!r}` would drown the terms in rounding: float32 or float64."
            )

    def device_of_rank(self) -> str:
        """Give each of several processes on one machine the CUDA device of its number."""
        here = read_launch_environment()
        if self.device == "cuda" and here.is_distributed:
            return f"cuda:{here.local_rank}"
        return self.device or "cpu"


@dataclass(frozen=True)
class ModelOptions(WholeModelOptions):
    """How a model is loaded."""

    tensor_parallel: bool = model_option(
        default=False,
        applies=(
            Applies(to=ANY_MODEL, excludes=PLACES[:2]),
            NOT_IN_MEMORY,
            Applies(
                to=CHECKPOINTS, why="{name} splits checkpoints: a random model is built whole."
            ),
            Applies(needs=("processes", "torchrun"), why=ONE_PROCESS),
            Applies(
                excludes=("with_random_init", "exact", "arithmetic:exact"),
                why="{name} is not understood with {other}: leave one out.",
            ),
        ),
        help="Split the model over the processes of --processes or torchrun.",
    )

    def refuse_wrong_process_count(self) -> None:
        """Refuse also a model that is split in one process."""
        several = read_launch_environment().is_distributed or STAGE.rehearsing  # of `processes`
        if self.tensor_parallel and not several:
            raise UsageError(ONE_PROCESS, about=["tensor_parallel"])
        super().refuse_wrong_process_count()


text_option = partial(input_option, metavar="TEXT", usual=True, applies=OF_TEXTS)
sample_option = partial(
    input_option, metavar="N", help="Number of random texts or images. [default: 1]"
)


@dataclass(frozen=True)
class TextOptions:
    """The texts that a model reads."""

    text: list[str] = text_option(
        default=[], help="Text to run on; repeatable. [default: attn's own sample text]"
    )
    text_file: str | None = input_option(
        metavar="FILE",
        usual=True,
        applies=OF_TEXTS,
        help=("Texts split at blank lines, or .jsonl .json .csv .tsv; - is stdin."),
    )
    token_ids: list[str] = input_option(
        default=[],
        metavar="ID,ID,…|@FILE",
        applies=(*OF_TEXTS, Applies(excludes=KINDS_OF_INPUT[:2])),
        help=(
            "Token ids instead of a text; no tokenizer is needed. A file holds JSON lists, or the ids of one text "
            "per line. Repeatable."
        ),
        in_words=join_number_lists_with_commas,
    )

    def list_options_that_are_set(self) -> list[str]:
        return [name for name, value in asdict(self).items() if value]

    def build_requested_input(self, tokens: int | None, seed: int) -> "RequestedInput":
        """Combine with options of other groups: the longest text, and the seed of random tokens."""
        from attncli.models.inputs.input_options import (
            RequestedInput,
            refuse_impossible_input_options,
        )

        own = asdict(self)
        samples = 1 if own["samples"] is None else own["samples"]
        request = RequestedInput(
            tuple(self.text),
            self.text_file,
            tuple(self.token_ids),
            own.get("random_tokens"),
            samples,
            tokens,
            validate_seed(seed),
        )
        refuse_impossible_input_options(request)
        return request


@dataclass(frozen=True)
class InputOptions(TextOptions):
    """The input of a model."""

    random_tokens: int | None = input_option(
        metavar="N",
        applies=Applies(to=ANY_MODEL, excludes=KINDS_OF_INPUT[:3]),
        help="N random token ids, or a random image or sound where a model takes one.",
    )
    samples: int | None = sample_option()


@dataclass(frozen=True)
class TextsByLengthOptions(TextOptions):
    """Texts cut to several lengths, or random tokens of these lengths."""

    text: list[str] = text_option(
        default=[], help="Text to cut to each length; repeatable. [default: random tokens]"
    )
    samples: int | None = sample_option()


def check_options_before_model_loading(
    source: Source, model: CheckpointOptions, inputs: TextOptions, tokens: int | None, seed: int
) -> None:
    """Validate options and the model's folder before anything heavy is imported."""
    model.build_model_load_options(seed)
    inputs.build_requested_input(tokens, seed)
    if source.kind == "folder":
        from attncli.models.files.config_checks import read_model_config
        from attncli.models.files.model_folder import find_model_folder
        from attncli.models.files.weight_files import refuse_unreadable_weights

        folder = find_model_folder(source).folder
        read_model_config(folder)
        refuse_unreadable_weights(folder, model.allow_pickle)
    if source.kind == "hub" and not STAGE.rehearsing:
        from attncli.models.files.model_folder import FetchSettings, find_model_folder

        find_model_folder(source, FetchSettings(model.revision, model.offline), config_alone=True)


STACK_OPTION = declare_option(
    metavar="NAME",
    applies=OF_MODELS,
    of_any_model=True,
    help="Which stack of a model with several, such as decoder. [default: the first]",
)

MODEL_ARGUMENT = declare_argument(
    metavar="MODEL",
    help="A model: org/name[@revision], ./dir, random:ARCH[?layers=2].",
    complete=complete_random_model_name,
)
"""Of the commands that only take models."""

SOURCE_ARGUMENT = declare_argument(
    default=None,
    metavar="SOURCE",
    help=(
        "A model: org/name[@revision] on the Hub, ./folder, random:ARCH[?layers=2]; or a network file written "
        "by `attn generate network`. [default: a built-in synthetic network]"
    ),
    complete=complete_random_model_name,
)
"""Of the commands that take models and synthetic networks alike."""
