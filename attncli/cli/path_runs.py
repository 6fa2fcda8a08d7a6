"""From SOURCE and the options of `attn paths` to a study."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from attncli.cli import sources
from attncli.cli.options import NetworkOptions, RunOptions, separated
from attncli.errors import UsageError, unknown_name
from attncli.gates import Condition
from attncli.metrics import METRICS
from attncli.networks.spec import NetworkSpec, option
from attncli.networks.weights import Network
from attncli.records import Report
from attncli.studies.path_choices import parse_path
from attncli.studies.path_heads import through_heads
from attncli.studies.path_samples import named_paths, sampled_paths
from attncli.studies.path_words import OWN_METRICS
from attncli.studies.paths import count_paths, paths

Study = Callable[..., Report]

MODEL_METRICS = ("loss", "full_loss")
"""Of next-token models alone."""

HEAD, STEPS = "head", "steps"
WAYS = (HEAD, STEPS)
"""Of --by."""

MOST_SAMPLES = 100_000

DEFAULT_METRICS = ("log10_residual", "stable_rank")


def length_study(
    source: str | None,
    metric: Sequence[str] | None,
    skip: bool,
    network: NetworkOptions,
    run: RunOptions,
    conditions: Sequence[Condition],
) -> Study:
    """The terms of synthetic networks by path length."""
    networks, identity = networks_of(source, network, run)
    metrics = wanted_metrics(metric or DEFAULT_METRICS, conditions)
    return partial(paths, networks, skip, metrics, identity)


def networks_of(
    source: str | None, network: NetworkOptions, run: RunOptions
) -> tuple[Sequence[Network], dict[str, object]]:
    if source is None:
        return sources.generated(sources.spec_from(network), run), dict(sources.SYNTHETIC)
    saved = sources.from_file(source, network.given() | run.given())
    return [saved], sources.identity(source)


def wanted_metrics(
    given: Sequence[str], conditions: Sequence[Condition], of_model: bool = False
) -> list[str]:
    """The columns asked for, and whatever the gates need; unknown names are refused before the work."""
    known = METRICS.names()
    own = [*OWN_METRICS, *(MODEL_METRICS if of_model else ())]
    names = separated(given)
    gated = [one.metric for one in conditions if one.metric not in own]
    for name in names:
        if name not in known:
            raise unknown_name("metric", name, known)
    for name in gated:
        if name not in known:
            raise unknown_name("metric in the gate", name, [*known, *own])
    return list(dict.fromkeys([*names, *gated]))


def refuse_together(**wanted: object) -> None:
    """One question at a time."""
    given = [option(name) for name, value in wanted.items() if value]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} are different questions: give one of them.")


def refuse_with_single(
    sample: int | None,
    by: str | None,
    metric: Sequence[str] | None,
    steps: Sequence[str] | None,
    loss: bool,
) -> None:
    """What is asked of whole lengths and not of single paths or heads."""
    if by is not None and by not in WAYS:
        raise unknown_name("way to take the output apart, --by", by, WAYS)
    given = {"--metric": metric, "--steps": steps, "--loss": loss}
    names = [name for name, value in given.items() if value]
    if names:
        raise UsageError(f"{', '.join(names)} is about all paths of a length: leave it out here.")
    if sample is not None and not 1 <= sample <= MOST_SAMPLES:
        raise UsageError(f"--sample must be from 1 to {MOST_SAMPLES:,}, not {sample}.")


def single_study(
    source: str | None,
    skip: bool,
    path: Sequence[str] | None,
    sample: int | None,
    by: str | None,
    network: NetworkOptions,
    run: RunOptions,
) -> Study:
    """Paths one by one, or by the head that they go through."""
    if by == STEPS:
        raise UsageError("--by steps is about MLPs: name a model as SOURCE.")
    networks, identity = networks_of(source, network, run)
    if by is not None:
        return partial(through_heads, networks, skip, identity)
    if sample is not None:
        return partial(sampled_paths, networks, skip, sample, identity)
    spec = networks[0].spec
    heads = [spec.heads] * spec.layers
    named = [parse_path(text, heads, skip) for text in path or ()]
    return partial(named_paths, networks, skip, list(dict.fromkeys(named)), identity)


def count_study(
    source: str | None,
    metric: Sequence[str] | None,
    skip: bool,
    network: NetworkOptions,
    run: RunOptions,
    others: Sequence[str],
    offline: bool,
) -> Study:
    """The number of paths alone, from sizes; `others`: names of given options of models and their input."""
    given = [*network.given(), *run.given(), *(["metric"] if metric else []), *others]
    idle = [option(name) for name in given if name not in ("layers", "heads", "offline")]
    if idle:
        raise UsageError(f"{', '.join(idle)} changes no count: leave it out, or leave out --count.")
    if source is not None:
        if network.given():
            raise UsageError(f"--layers and --heads are those of {source}: leave them out.")
        layers, heads, identity = sizes_of(source, offline)
        return partial(count_paths, layers, heads, skip, identity)
    standard = NetworkSpec()
    layers = standard.layers if network.layers is None else network.layers
    heads = standard.heads if network.heads is None else network.heads
    sizes = NetworkSpec(layers=layers, heads=heads, key_width=1)
    return partial(count_paths, sizes.layers, sizes.heads, skip, sources.SYNTHETIC)


def sizes_of(source: str, offline: bool) -> tuple[int, int, Mapping[str, object]]:
    """Layers and heads of a network file, or of a model's config; no weights are read."""
    if Path(source).is_file():
        spec = sources.from_file(source, {}).spec
        return spec.layers, spec.heads, sources.identity(source)
    from attncli.checkpoints.sources import parse

    named = parse(source)
    if named.kind == "random":
        return sizes_of_type(named.name, named.sizes)
    from attncli.checkpoints.files.local_folder import Fetching, local_folder
    from attncli.checkpoints.heads.configs import Config

    local = local_folder(source, Fetching(offline=offline, config_alone=True))
    config = Config.read(local.folder)
    return config.layers, config.heads, local.described()


def sizes_of_type(
    arch: str, given: Mapping[str, str | int | float]
) -> tuple[int, int, dict[str, object]]:
    """Of a model type's own config, but for what is given."""
    from transformers import CONFIG_MAPPING

    if arch not in CONFIG_MAPPING:
        raise unknown_name("model type", arch, CONFIG_MAPPING.keys())
    other = sorted(set(given) - {"layers", "heads"})
    if other:
        raise UsageError(f"{other[0]} changes no count: leave it out of random:{arch}.")
    config = CONFIG_MAPPING[arch]().get_text_config()
    own = (config.num_hidden_layers, config.num_attention_heads)
    sizes = NetworkSpec(
        layers=whole(given.get("layers", own[0])),
        heads=whole(given.get("heads", own[1])),
        key_width=1,
    )
    return sizes.layers, sizes.heads, {"kind": "random", "name": arch}


def whole(size: str | int | float) -> int:
    if not isinstance(size, int):
        raise UsageError(f"{size} is no whole number of layers or heads.")
    return size
