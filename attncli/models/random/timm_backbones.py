"""Replace backbones of timm, so that a tiny model needs transformers alone."""

from transformers import CONFIG_MAPPING, PreTrainedConfig

FOREIGN = "timm_backbone"


def replace_timm_backbone(
    config: PreTrainedConfig, name: str, nested: PreTrainedConfig
) -> PreTrainedConfig:
    """Use the nested config, or the class's own default backbone, read at the same stages."""
    if nested.model_type != FOREIGN:
        return nested
    spec = getattr(type(config), "sub_configs_defaults", {}).get(name)
    if spec is None or spec.model_type == FOREIGN:
        return nested
    arguments = dict(spec.init_kwargs)
    # the last stage alone, where the class reads several of timm's
    if arguments.pop("out_features", None):
        arguments["out_indices"] = list(nested.out_indices)
    return CONFIG_MAPPING[spec.model_type](**arguments)
