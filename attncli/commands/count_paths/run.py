"""Count paths from sizes or from a config; no model is run and no weights are read."""

from collections.abc import Mapping, Sequence
from functools import partial
from importlib.resources import files

from attncli.analysis import Study
from attncli.analysis.source_argument_checks import describe_network_source
from attncli.analysis.weight_sources import build_in_memory_config
from attncli.commands.count_paths.report import NAMES, build_path_count_report
from attncli.errors import NoAttention, UsageError, require_known_names
from attncli.gates import Condition, refuse_gates_on_unmeasured_metrics
from attncli.head_weights.attention_kind_counts import count_listed_layers
from attncli.model_and_file_sources import Source
from attncli.models.layer_sizes_from_config import select_text_config
from attncli.networks.network_spec import NetworkSpec
from attncli.options.model_and_input import FetchOptions


def prepare_path_count(
    source: Source, layers: int | None, heads: int | None, skip: bool, files: FetchOptions
) -> Study:
    """The count of these sizes, or of those that the source has."""
    if source.kind != "synthetic":
        own_layers, own_heads, identity, warnings = read_layer_and_head_counts(source, files)
        return partial(
            build_path_count_report, own_layers, own_heads, skip, identity, warnings=warnings
        )
    standard = NetworkSpec()
    sizes = NetworkSpec(
        layers=standard.layers if layers is None else layers,
        heads=standard.heads if heads is None else heads,
        key_width=1,
    )
    return partial(
        build_path_count_report, sizes.layers, sizes.heads, skip, describe_network_source(source)
    )


def refuse_gates_on_other_metrics(conditions: Sequence[Condition]) -> None:
    """Refuse a gate on a number that a count does not have."""
    refuse_gates_on_unmeasured_metrics(conditions, NAMES)


def read_layer_and_head_counts(
    source: Source, files: FetchOptions
) -> tuple[int, int, Mapping[str, object], tuple[str, ...]]:
    """Layers, heads, identity and warnings of a network file or a model's config; no weights are read."""
    if source.kind == "network":
        from attncli.networks.network_files import FileNetwork

        spec = FileNetwork(source.path).spec
        return spec.layers, spec.heads, describe_network_source(source), ()
    if source.kind == "random":
        return count_layers_and_heads_of_model_type(source.name, source.sizes)
    if source.kind == "live":
        own = build_in_memory_config(source.live.model, str(source.live))
        return own.layer_count, own.head_count, source.live.describe_in_memory_model(), ()
    from attncli.head_weights.head_configs import HeadConfig
    from attncli.models.files.model_folder import find_model_folder

    local = find_model_folder(source, files.build_fetch_settings(), config_alone=True)
    config = HeadConfig.read_config(local.folder)
    return config.layer_count, config.head_count, local.describe_model_source(), ()


def count_layers_and_heads_of_model_type(
    arch: str, settings: Mapping[str, str | int | float]
) -> tuple[int, int, dict[str, object], tuple[str, ...]]:
    """Read the sizes from a model type's default config, except those provided."""
    from transformers import CONFIG_MAPPING

    from attncli.models.layer_sizes_from_config import list_head_counts, read_config_value
    from attncli.models.library_errors import translate_library_errors
    from attncli.models.quiet_libraries import silence_libraries

    require_known_names("model type", [arch], CONFIG_MAPPING.keys())
    other = sorted(set(settings) - {"layers", "heads"})
    if other:
        raise UsageError(f"{other[0]} changes no count: leave it out of random:{arch}.")
    with silence_libraries():
        made = translate_library_errors(
            f"random:{arch}", "there is no config of its own", CONFIG_MAPPING[arch]
        )
        config = select_text_config(made)
    depth, attending = count_listed_layers(config)
    refuse_types_without_attention(arch, attending if depth else None)
    uneven = attending < depth
    if uneven and "layers" in settings:
        raise UsageError(
            f"only some layers of {arch} have attention: leave random:{arch} out, and give their number and heads as "
            "`layers` and `heads`."
        )
    counted = {
        "layers": [attending if uneven else read_config_value(config, "num_hidden_layers")],
        "heads": sorted(list_head_counts(config)),
    }
    layers, heads = (
        choose_layer_or_head_count(arch, name, settings, own) for name, own in counted.items()
    )
    sizes = NetworkSpec(layers=layers, heads=heads, key_width=1)
    warnings = []
    if uneven:
        warnings.append(
            f"of the {depth} layers of {arch}, {attending} {'has' if attending == 1 else 'have'} attention: "
            "paths are counted through those alone."
        )
    if config.is_encoder_decoder:
        warnings.append(f"{arch} has an encoder and a decoder: the encoder's paths are counted.")
    return sizes.layers, sizes.heads, {"kind": "random", "name": arch}, tuple(warnings)


def refuse_types_without_attention(arch: str, attending: int | None) -> None:
    """Refuse a model type without attention: by its config's list of layers, else by the table of the types tried."""
    lines = (files("attncli.models.random") / "architectures.tsv").read_text().splitlines()
    tried = next((line.split("\t") for line in lines if line.startswith(f"{arch}\t")), [])
    if attending == 0 or (attending is None and "no attention" in tried):
        raise NoAttention(f"no layer of random:{arch} has attention: there are no paths to count.")


def choose_layer_or_head_count(
    arch: str, name: str, sizes: Mapping[str, str | int | float], own: Sequence[object]
) -> int:
    """The provided size, or the config's, if all its layers have the same."""
    size = sizes.get(name, own[0] if len(own) == 1 else None)
    if isinstance(size, int):
        return size
    if name in sizes:
        raise UsageError(f"{size} is no whole number of layers or heads.")
    sizes_text = f"its layers have {', '.join(map(str, own))}" if len(own) > 1 else "it names none"
    raise UsageError(
        f"random:{arch} has no one number of {name}, by which paths are counted ({sizes_text}): say random:{arch}?{name}=N."
    )
