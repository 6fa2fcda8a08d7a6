"""One mechanism for whatever is extended by adding a file."""

import ast
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import pytest
from source_trees import nodes_of

import attncli
from attncli.commands.utilities.list.registry_catalogue import REGISTRIES
from attncli.errors import UsageError
from attncli.registry import (
    EntryDeclaration,
    Registry,
    SpecifiedRegistry,
    call_entry_from_text,
    list_entry_names,
)

PACKAGE = Path(attncli.__file__).parent

TOY = '''
def {name}(*, tokens: int, size: int = 8, share: float = 0.5, causal: bool = False) -> tuple:
    """What {name} is.

    And more."""
    return tokens, size, share, causal
'''


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """A package made on the spot: two things, a private module and a sub-package."""
    package = tmp_path / "toybox"
    (package / "nested").mkdir(parents=True)
    for name in ("__init__", "_private", "nested/__init__"):
        (package / f"{name}.py").touch()
    for name in ("car", "big_ball"):
        (package / f"{name}.py").write_text(TOY.format(name=name))
    monkeypatch.syspath_prepend(tmp_path)
    yield Registry("toy", "toybox")
    list_entry_names.cache_clear()
    for module in [name for name in sys.modules if name.partition(".")[0] == "toybox"]:
        del sys.modules[module]


def test_a_file_is_all_it_takes(toys: Registry, tmp_path: Path) -> None:
    assert toys.names() == ["big_ball", "car"]
    (tmp_path / "toybox" / "kite.py").write_text(TOY.format(name="kite"))
    assert toys.names() == ["big_ball", "car"], "read once in a process"
    list_entry_names.cache_clear()
    next_time = Registry("toy", "toybox")
    assert next_time.names() == ["big_ball", "car", "kite"]
    assert next_time["kite"](tokens=1) == (1, 8, 0.5, False)


def test_names_import_nothing(toys: Registry) -> None:
    toys.names()
    assert "toybox.car" not in sys.modules


def test_a_thing_is_its_function_untouched(toys: Registry) -> None:
    from toybox.big_ball import big_ball  # type: ignore[import-not-found]

    assert toys["big_ball"] is big_ball
    assert toys["big-ball"] is big_ball
    assert toys.summary("big_ball") == "What big_ball is."


def test_a_folder_is_read_once_for_a_thing(toys: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report looks its metric up for every row."""
    assert toys["car"] is toys["car"]
    monkeypatch.delattr(Registry, "names")
    assert toys.summary("car") == "What car is."


@pytest.mark.parametrize(
    "name", ["nested", "_private", "__init__", "", "car.py", "../car", "toybox.car"]
)
def test_only_public_things_are_found(toys: Registry, name: str) -> None:
    with pytest.raises(UsageError, match="unknown toy"):
        toys[name]


def test_an_unknown_name_gets_the_nearest_or_all(toys: Registry) -> None:
    with pytest.raises(UsageError, match=r"^unknown toy 'cat': did you mean 'car'\?$"):
        toys["cat"]
    with pytest.raises(UsageError, match=r"^unknown toy 'xyz': there are: big_ball, car\.$"):
        toys["xyz"]


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("car", (4, 8, 0.5, False)),
        ("car:", (4, 8, 0.5, False)),
        ("car:3", (4, 3, 0.5, False)),
        ("car:3:0.25:true", (4, 3, 0.25, True)),
        ("car:size=3,share=0.25", (4, 3, 0.25, False)),
        ("car:share=1e-3:size=2", (4, 2, 0.001, False)),
        ("car:3,causal=True", (4, 3, 0.5, True)),
    ],
)
def test_parameters_by_position_and_by_name(
    toys: Registry, text: str, result: tuple[object]
) -> None:
    assert call_entry_from_text(toys, text, tokens=4) == result


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("car:x", "size must be a whole number, not 'x'"),
        ("car:1.5", "size must be a whole number, not '1.5'"),
        ("car:" + "9" * 30, "size must have at most 12 digits"),
        ("car:share=", "share must be a number, not ''"),
        ("car:causal=1", "causal must be true or false, not '1'"),
        ("car:speed=3", "cannot use 'speed=3': 'car' takes size, share, causal"),
        ("car:1:2:true:4", "cannot use '4'"),
        ("car:1,size=2", "cannot use 'size=2'"),
        ("car:tokens=9", "cannot use 'tokens=9'"),
        ("cra:1", "did you mean 'car'?"),
    ],
)
def test_wrong_parameters_are_named(toys: Registry, text: str, said: str) -> None:
    with pytest.raises(UsageError) as refusal:
        call_entry_from_text(toys, text, tokens=4)
    assert said in str(refusal.value)


ENTRIES = [
    (registry, name)
    for registry in map(resolve_name, REGISTRIES.values())
    for name in registry.names()
]


@pytest.mark.parametrize(
    ("registry", "name"), ENTRIES, ids=[f"{registry.kind} {name}" for registry, name in ENTRIES]
)
def test_every_registered_thing_says_what_it_is(registry: Registry, name: str) -> None:
    """A function of the file's own name, with a first line that ends like a sentence."""
    function = registry[name]
    assert function.__name__ == name
    assert function.__module__ == f"{registry.package}.{name}"
    assert registry.summary(name).endswith(".")
    assert inspect.signature(function).return_annotation is not inspect.Signature.empty


def test_each_registry_is_made_once() -> None:
    """By the package whose files are its entries; who only needs names asks `list_entry_names`."""
    made: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in nodes_of(path):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Registry", "MetricRegistry", "FormatRegistry"):  # fmt: skip
                (_, package) = map(ast.literal_eval, node.args)
                made.setdefault(package, []).append(path.relative_to(PACKAGE.parent).as_posix())
    homes = {package.replace(".", "/"): files for package, files in made.items()}
    assert all(len(files) == 1 and files[0].startswith(home) for home, files in homes.items()), homes  # fmt: skip
    assert {registry.package for registry, _ in ENTRIES} == set(made)


def test_what_an_entry_declares_is_found_by_its_name(toys: Registry) -> None:
    toys = SpecifiedRegistry(toys.kind, toys.package)

    class Size(EntryDeclaration):
        pass

    class Other(EntryDeclaration):
        pass

    size = Size()
    assert size(toys["car"]) is toys["car"]
    toys.specification = Size
    assert toys.declaration_of_entry("car") is size
    toys.specification = Other
    with pytest.raises(AssertionError):
        toys.declaration_of_entry("car")
