"""Name stacks of blocks, from the path of the list that contains their first block."""

from collections.abc import Collection

Path = list[str]


def choose_unique_block_stack_names(containers: list[str], prefix: Collection[str]) -> list[str]:
    """The shortest names that distinguish the stacks, without the parts of a path in `prefix`.

    A list that runs twice is two stacks, the second of them with a number.
    """
    paths = []
    for container in containers:
        parts = container.split(".")
        paths.append([part for part in parts if part not in prefix] or parts)
    stems = [find_unique_prefix_of_stack_path(path, paths) for path in paths]
    names: list[str] = []
    for stem in stems:
        sizes = (
            size for size in range(1, len(stem)) if is_suffix_of_one_stack_path(stem[-size:], stems)
        )
        name = ".".join(stem[-next(sizes, len(stem)) :])
        times = stems[: len(names)].count(stem)
        names.append(f"{name} ({times + 1})" if times else name)
    return names


def find_unique_prefix_of_stack_path(path: Path, paths: list[Path]) -> Path:
    """The part of a path that means this list alone: what holds the list, else the list itself.

    `encoder.layer` is the encoder, and so are ALBERT's groups, which are lists in a list; Swin's stages are
    `encoder.layers.0`, `encoder.layers.1`; `layers`, which nothing holds, stays `layers`.
    """
    for cut in (find_parent_of_outermost_list, find_parent_module_path):
        stem = cut(path)
        if stem and all(cut(other) != stem for other in paths if other != path):
            return stem
    return path


def find_parent_module_path(path: Path) -> Path:
    return path[:-1]


def find_parent_of_outermost_list(path: Path) -> Path:
    """The path of the module around the outermost list."""
    first_number = next((place for place, part in enumerate(path) if part.isdigit()), len(path))
    return path[: first_number - 1]


def is_suffix_of_one_stack_path(suffix: Path, stems: list[Path]) -> bool:
    """Whether a suffix names one stem only, and does not begin with a number."""
    ending = {tuple(stem) for stem in stems if stem[-len(suffix) :] == suffix}
    return len(ending) == 1 and not suffix[0].isdigit()
