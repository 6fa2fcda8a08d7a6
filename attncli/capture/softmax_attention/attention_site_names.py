"""Attention sites: every module that attends gets a stack, a true layer index, and a kind."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import NamedTuple

from torch import nn

from attncli.capture.forward_wrappers import hook_forwards
from attncli.capture.model_structure.blocks import BlockStack

NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")

CROSS = re.compile(r"cross|encoder_attn|encdec|enc_attn|encoder_decoder|_to_", re.IGNORECASE)
"""How transformers' models name attention over another stack's states."""

ATTENDS = re.compile(r"att(entio)?n", re.IGNORECASE)
"""In the class or the name of every module of transformers that attends."""

WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
SAID = re.compile(
    r"att(entio)?n?s?|self|cross|enc(oder)?|dec(oder)?|encdec|layers?|blocks?|heads?|multi(head)?|mha|attend(s|er)?|modules?",
    re.IGNORECASE,
)
"""Words that only say that a module is an attention, and of which kind."""

LINEAR = "linear"
"""The span of what has a map without a softmax."""

SELF, CROSSING, DIFFERENCE = "self", "cross", "difference"
"""Kinds: over a stack's own states, over another's, and one map of a layer minus a share of another."""


@dataclass(frozen=True, slots=True)
class AttentionSite:
    """One attention of one forward pass."""

    stack: str
    """The module path up to the layers, such as `encoder.layer`."""
    layer: int
    """The true index: a hybrid's attention layers keep the numbers of the layers they are."""
    kind: str
    """self or cross, with words that distinguish those of one layer (`cross text`, `cross vision`); or difference."""
    span: str
    """full, sliding, chunked …: the config's own word where it has one."""
    name: str
    """The module's path."""

    @property
    def stack_name_kind_and_layer(self) -> tuple[str, str, int]:
        """The key that identifies it among the model's attentions."""
        return self.stack, self.kind, self.layer

    def is_inside_block(self, block: str) -> bool:
        """Whether it is in the block of this path, or is that block."""
        return f"{self.name}.".startswith(f"{block}.")

    @property
    def is_self_attention(self) -> bool:
        """Whether queries and keys are states of one stack."""
        return self.kind.startswith(SELF)

    @property
    def is_linear_attention(self) -> bool:
        """Whether its map is that of a linear layer: of both signs, its rows not summing to one."""
        return self.span == LINEAR

    @property
    def is_differential_map(self) -> bool:
        """Whether it subtracts one map from another, so that its weights have both signs."""
        return self.kind == DIFFERENCE


class MapShape(NamedTuple):
    """The shape of one attention's maps."""

    heads: int
    queries: int
    keys: int


class SiteNamer:
    """Names every attention of a forward pass as it runs.

    A module that is called once carries its index in its path. Where a path has several changing numbers (stages of
    blocks) or a layer runs again (shared layers), attentions are counted as they come. What attends again within one
    run of its layer belongs to that layer all the same: its kind then has a number.
    """

    def __init__(self, model: nn.Module) -> None:
        self.names = {id(module): name for name, module in model.named_modules()}
        self.spans = read_layer_types(model)
        self.own_indices = find_distinguishing_path_numbers(self.names.values())
        self.kinds = find_attention_kinds(model)
        self.elements = {
            name: module
            for name, module in model.named_modules()
            if NUMBER.fullmatch(name, name.rfind(".") + 1)
            or is_composite_module_named_attention(name, module)
        }
        """Elements of module lists, and modules that may attend: their runs are counted."""
        self.start_forward_pass()

    def start_forward_pass(self) -> None:
        """Restart the counts for a new forward pass."""
        self.call_counts: Counter[tuple[str, str]] = Counter()
        """Attentions seen in each stack, by kind."""
        self.runs: Counter[str] = Counter()
        """Runs of each list element."""
        self.latest: dict[str, tuple[int, int, int]] = {}
        """For each module: the run of its list element, its layer, and how often it attended in that run."""

    def count_list_element_forwards(self) -> AbstractContextManager[None]:
        """Within, count the runs of all list elements."""
        return hook_forwards(
            (module, lambda *_, name=name: self.runs.update((name,)))
            for name, module in self.elements.items()
        )

    def name_attention_site(self, module: nn.Module) -> AttentionSite:
        name = self.names.get(id(module), type(module).__name__)
        family = NUMBER.sub("*", name)
        stack, kind = (
            family.partition(".*")[0],
            self.kinds.get(family) or find_attention_kind_by_class(family),
        )
        run = self.runs[find_enclosing_list_element_path(name)]
        before, layer, times = self.latest.get(name, (0, 0, 0))
        if run > 0 and run == before:
            times += 1
        else:
            running, self.call_counts[stack, kind] = (
                self.call_counts[stack, kind],
                self.call_counts[stack, kind] + 1,
            )
            own = self.own_indices.get(name)
            layer = running if own is None or name in self.latest else own
            times = 1
        self.latest[name] = run, layer, times
        span = self.spans[layer] if layer < len(self.spans) else "full"
        kind = kind if times == 1 else f"{kind} {times}"
        self.last = AttentionSite(stack, layer, kind, span.removesuffix("_attention"), name)
        return self.last

    def name_differential_map_site(self) -> AttentionSite:
        """The site of the map that differential attention applies; its two maps were named before."""
        return replace(self.last, kind=DIFFERENCE)


def find_enclosing_list_element_path(name: str) -> str:
    """The path of the innermost list element around a module; its own path where there is none."""
    numbers = list(NUMBER.finditer(name))
    return name[: numbers[-1].end()] if numbers else name


def find_module_path_within_layer(family: str) -> str:
    """A module's path within its layer; its whole path outside any list."""
    _, inside, tail = family.partition(".*")
    return tail if inside else family


def find_attention_kind_by_class(family: str, classes: Iterable[str] = ()) -> str:
    """The kind by the classes of the modules on the path within the layer."""
    described = " ".join((find_module_path_within_layer(family), *classes))
    return CROSSING if CROSS.search(described) else SELF


def find_attention_kinds(model: nn.Module) -> dict[str, str]:
    """The kind of each path that may attend, with the words in which it differs from others of its layer."""
    words: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    classes = {name: type(module).__name__ for name, module in model.named_modules()}
    torchs_crossing = {
        f"{name}.multihead_attn"
        for name, module in model.named_modules()
        if isinstance(module, nn.TransformerDecoderLayer)
        or {"self_attn", "multihead_attn"} <= dict(module.named_children()).keys()
    }
    for name, module in model.named_modules():
        if is_composite_module_named_attention(name, module):
            family = NUMBER.sub("*", name)
            base = find_attention_kind_by_class(
                family, (classes[inner] for inner in iter_parent_module_paths_in_layer(name))
            )
            base = CROSSING if name in torchs_crossing else base
            words[family.partition(".*")[0], base][family] = find_distinguishing_path_words(
                find_module_path_within_layer(family)
            )
    return {
        family: f"{base} {own}" if own and len(set(found.values())) > 1 else base
        for (_, base), found in words.items()
        for family, own in found.items()
    }


def iter_parent_module_paths_in_layer(name: str) -> Iterator[str]:
    """Iterate over the paths from a module's list element to the module, without the element."""
    element = find_enclosing_list_element_path(name)
    while len(name) > len(element):
        yield name
        name = name.rpartition(".")[0]


def is_module_named_attention(name: str, module: nn.Module) -> bool:
    return bool(ATTENDS.search(type(module).__name__) or ATTENDS.search(name.rpartition(".")[2]))


def is_composite_module_named_attention(name: str, module: nn.Module) -> bool:
    """Named as attention, and made of parts: projections, not a norm or a dropout."""
    return is_module_named_attention(name, module) and any(True for _ in module.children())


def find_distinguishing_path_words(path: str) -> str:
    """The words of a path that distinguish an attention beyond its kind: `token to image` of `cross_attn_token_to_image`."""
    return " ".join(word.lower() for word in WORD.findall(path) if not SAID.fullmatch(word))


def find_distinguishing_path_numbers(names: Iterable[str]) -> dict[str, int]:
    """The one number in which each path differs from its siblings'; none of paths without numbers, or with several that
    differ."""
    families: dict[str, list[str]] = defaultdict(list)
    for name in names:
        families[NUMBER.sub("*", name)].append(name)
    found: dict[str, int] = {}
    for siblings in families.values():
        columns = list(zip(*map(NUMBER.findall, siblings), strict=True))
        changing = [column for column in columns if len(set(column)) > 1] or columns[:1]
        if len(changing) == 1:
            found |= dict(zip(siblings, map(int, changing[0]), strict=True))
    return found


def read_layer_types(model: nn.Module) -> list[str]:
    """The layer types in the config, if it lists them."""
    config = getattr(model, "config", None)
    for one_config in (config, getattr(config, "text_config", None)):
        types = getattr(one_config, "layer_types", None)
        if types:
            return [str(kind) for kind in types]
    return []


def find_block_stack_of_attention(site: AttentionSite, stacks: Sequence[BlockStack]) -> str:
    """The stack of the block that an attention runs in, if its layer has that index there; else its own list."""
    for stack in stacks:
        for call in stack.calls:
            if site.is_inside_block(call.name) and call.layer == site.layer:
                return stack.name
    return site.stack
