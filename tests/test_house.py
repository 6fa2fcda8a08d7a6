"""What is promised about the house: arrows between rooms, light imports, and words that match the code."""

import ast
import inspect
import io
import itertools
import re
import subprocess
import sys
import tokenize
from functools import cache
from pathlib import Path

import pytest
from source_trees import nodes_of, tree_of

import attncli

PACKAGE = Path(attncli.__file__).parent
ROOMS = re.findall(
    r"^    (\w+) +\S", (attncli.__doc__ or "").partition("Packages,")[2], re.MULTILINE
)
"""The rooms in the order of the drawing."""


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


SOURCES = [
    path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.relative_to(PACKAGE).parts[0] not in ("__init__.py", "__main__.py")
]


def test_the_drawing_names_every_room() -> None:
    assert {room(path) for path in SOURCES} == set(ROOMS)


def test_arrows_point_upwards() -> None:
    """A room imports only from rooms above it in the drawing, and from itself."""
    downwards = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in SOURCES
        for name in imported_modules(path)
        if name.startswith("attncli.")
        if name.split(".")[1] in ROOMS[ROOMS.index(room(path)) + 1 :]
    ]
    assert downwards == []


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(
        ".__init__"
    )


MODULES = {module_of(path): path for path in PACKAGE.rglob("*.py")}


@cache
def imported_modules(path: Path, typing_too: bool = True) -> frozenset[str]:
    """Modules of the package, and libraries, that a file imports, at its top or inside its functions."""
    nodes = list(nodes_of(path))
    typing_alone = {
        id(inner)
        for node in nodes
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = set()
    for node in nodes:
        if id(node) in typing_alone and not typing_too:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in names}
    return frozenset(found)


@pytest.mark.slow
def test_no_two_files_import_each_other() -> None:
    """Neither at once nor around others."""
    needs = {name: imported_modules(path) & set(MODULES) - {name} for name, path in MODULES.items()}
    while free := [name for name, others in needs.items() if not others & set(needs)]:
        for name in free:
            del needs[name]
    assert not needs


@pytest.mark.slow
def test_torch_is_imported_in_the_rooms_that_the_drawing_names() -> None:
    drawn = (attncli.__doc__ or "").partition("transformers are imported in")[2].partition(" alone")[0]  # fmt: skip
    named = set(re.findall(r"\w+", drawn)) - {"and"}
    heavy = {"torch", "transformers", "accelerate", "tokenizers", "huggingface_hub"}
    importing = {
        room(path)
        for path in SOURCES
        if {name.partition(".")[0] for name in imported_modules(path, typing_too=False)} & heavy
    }
    assert importing == named


@cache
def listed(path: Path) -> set[str]:
    """The first words of a docstring's lists."""
    said = ast.get_docstring(tree_of(path)) or ""
    return set(re.findall(r"^([a-z_0-9]+)(?: {2,}\S.*)?$", said, re.MULTILINE))


def files_beside(path: Path) -> set[str]:
    return {
        each.stem
        for each in path.parent.iterdir()
        if each.name != "__init__.py" and (each.suffix == ".py" or (each / "__init__.py").exists())
    }


LISTS = [
    path
    for path in sorted(PACKAGE.rglob("__init__.py"))
    if path.parent != PACKAGE and listed(path) & files_beside(path)
]


@pytest.mark.parametrize("path", LISTS, ids=lambda path: str(path.relative_to(PACKAGE).parent))
def test_a_room_that_lists_its_files_lists_them_all(path: Path) -> None:
    assert listed(path) == files_beside(path)


def drawn_parts(path: Path) -> list[str]:
    """What a room's docstring lists, in its order."""
    said = ast.get_docstring(tree_of(path)) or ""
    return re.findall(r"^([a-z_0-9]+)(?: {2,}\S.*)?$", said, re.MULTILINE)


ROOMS_OF_ROOMS = [path for path in LISTS if any((path.parent / name).is_dir() for name in listed(path))]  # fmt: skip


@pytest.mark.parametrize("path", ROOMS_OF_ROOMS, ids=lambda path: str(path.relative_to(PACKAGE).parent))  # fmt: skip
def test_a_room_of_rooms_is_drawn_in_its_order(path: Path) -> None:
    """As in the large drawing: each part imports only from parts above it, so that there is no cycle of sub-rooms."""
    parts, inside = drawn_parts(path), f"{module_of(path)}."
    below = []
    for index, part in enumerate(parts):
        files = [path.parent / f"{part}.py"] if part not in {p.name for p in path.parent.iterdir()} else (path.parent / part).rglob("*.py")  # fmt: skip
        for file in files:
            needed = {name.removeprefix(inside).partition(".")[0] for name in imported_modules(file) if name.startswith(inside)}  # fmt: skip
            below += [f"{part} imports {name}" for name in needed & set(parts[index + 1 :])]
    assert below == []


def test_every_room_of_more_than_a_few_files_says_what_they_are() -> None:
    """But those whose files are entries of a registry, which says it."""
    registries = {"maps", "patterns", "fits", "render", "metrics", "commands", "sequence_labelling", "plots", "attention", "activations", "weights", "random_inputs", "steps"}  # fmt: skip
    silent = {
        str(each.parent.relative_to(PACKAGE))
        for each in PACKAGE.rglob("__init__.py")
        if each not in LISTS and len(list(each.parent.glob("*.py"))) > 5
    }
    assert {Path(name).name for name in silent} - registries - {""} <= {"gates", "networks", "reports", "tasks", "circle"}  # fmt: skip


ENTRIES = {"patterns", "maps", "render", "fits", "metrics", "metrics/attention", "metrics/activations", "metrics/weights", "commands/reproduce/tasks"}  # fmt: skip
"""Rooms whose files are entries of a registry: a file's name is the public name of what is in it, but for those that begin
with an underscore, which only help the others."""


MOST_FILES = 15
"""Of one room beside its sub-rooms: more names are a heap, and want rooms of their own."""


def test_no_room_is_a_heap() -> None:
    """But those of a registry, whose files are alike."""
    held = {path.parent: len(list(path.parent.glob("*.py"))) - 1 for path in PACKAGE.rglob("__init__.py")}  # fmt: skip
    heaps = {folder.relative_to(PACKAGE).as_posix() for folder, count in held.items() if count > MOST_FILES}  # fmt: skip
    assert heaps - ENTRIES == set()


def test_public_names_are_unique() -> None:
    """What `attn.` and `attn.reproduce.` offer; within the package a name only has to be unique in its file."""
    from attncli.python.reproduce import EXPERIMENTS

    names = [*attncli.PUBLIC, *attncli.MODULES, *EXPERIMENTS]
    assert len(names) == len(set(names))


def command_of(module: str) -> str:
    """The folder of a command: `rank_collapse`, or `utilities`."""
    return module.split(".")[2]


def test_no_command_imports_another() -> None:
    """What two questions share has a package of its own; only the table of commands knows them all, by name."""
    found = {
        name: {
            other
            for other in imported_modules(MODULES[name])
            if other.startswith("attncli.commands.") and command_of(other) != command_of(name)
        }
        for name in MODULES
        if name.startswith("attncli.commands.")
    }
    assert len(found) > 100
    assert not {name: others for name, others in found.items() if others}


def test_every_command_of_the_table_is_there() -> None:
    """Its function, its examples, and in its help the sentence that the table shows."""
    from attncli.declare.command_table import COMMANDS, import_command_function
    from attncli.python.public_functions import make_public_function

    for path, entry in COMMANDS.items():
        function = import_command_function(path)
        in_python = make_public_function(function, "attncli") if hasattr(function, "any_module") else function  # fmt: skip
        first = (inspect.getdoc(in_python) or "").partition("\n\n")[0].replace("\n", " ")
        assert first == entry.summary, path
        assert sys.modules[function.__module__].EXAMPLES, path


HEAVY = "import sys; sys.exit(', '.join(sorted({'torch', 'transformers', 'scipy', 'pandas'} & set(sys.modules))) or 0)"


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["rank-collapse", "--help"],
        ["rank-collapse", "--layers", "2", "--seeds", "1"],
        ["list"],
    ],
)
def test_help_and_synthetic_work_import_nothing_heavy(arguments: list[str]) -> None:
    """Neither torch nor transformers, nor scipy, which only the fits need."""
    code = (
        f"from attncli.cli.main import run_command_line; run_command_line({arguments!r}); {HEAVY}"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    loaded = done.stderr.strip()
    assert "torch" not in loaded
    assert "transformers" not in loaded
    if arguments[0] != "list":
        assert loaded == ""


def test_help_does_not_even_import_numpy() -> None:
    code = "from attncli.cli.main import run_command_line; run_command_line(['--help']); import sys; sys.exit('numpy' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode
        == 0
    )


def test_functions_can_be_taken_in_at_a_glance() -> None:
    """Sixty lines at most, signature and docstring included; where options are the signature, it may be longer."""
    long = [
        f"{path.relative_to(PACKAGE)}: {node.name}"
        for path in SOURCES
        if room(path) != "cli"
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= 60
        if not is_declaration(node.decorator_list)
    ]
    assert long == []


def is_declaration(decorators: list[ast.expr]) -> bool:
    """Of a command: its signature is its options."""
    source = " ".join(map(ast.unparse, decorators))
    return "question(" in source or "flatten_option_groups" in source


FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*|(?<![\w-])-o\b")
WRITES_COMMAND_LINES = {
    "declare/command_table.py",
    "declare/replaced_options.py",
    "processes/command_in_subprocess.py",
    "distributed_ranks.py",
    "python/keyword_help.py",
}
OF_OTHERS = ("--nproc-per-node",)
"""Options of programs that are not ours."""


@cache
def sentences(path: Path) -> list[tuple[int, str]]:
    """Texts of a file with their lines, but for docstrings and what declares options or metrics; `X` is what is filled in."""
    nodes = list(nodes_of(path))
    apart = set()
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            apart.add(id(node.value))
        declares = isinstance(node, ast.Call) and (
            any(each.arg == "help" for each in node.keywords)
            or ast.unparse(node.func) == "Definition"
        )
        is_examples = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "EXAMPLES"
        if declares or is_examples or (isinstance(node, ast.FormattedValue) and node.format_spec):
            apart |= {id(inner) for inner in ast.walk(node)}
        if isinstance(node, ast.JoinedStr):
            apart |= {id(inner) for inner in node.values if isinstance(inner, ast.Constant)}
    found = []
    for node in nodes:
        if id(node) in apart:
            continue
        if isinstance(node, ast.JoinedStr):
            found.append((node.lineno, "".join(map(filled, node.values))))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append((node.lineno, node.value))
    return found


def filled(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    return "'X'" if isinstance(part, ast.FormattedValue) and part.conversion == ord("r") else "X"


TERMINAL_ALONE = tuple(
    f"commands/utilities/{name}"
    for name in (
        "check_saved_report",
        "continuous_integration",
        "show_settings",
        "show_guides",
        "list",
        "sweep/sweep_in_terminal",
    )
)
"""Commands without a function in Python."""

LIBRARY = [
    path
    for path in SOURCES
    if room(path) != "cli"
    and path.relative_to(PACKAGE).as_posix() not in WRITES_COMMAND_LINES
    and not path.relative_to(PACKAGE).as_posix().startswith(TERMINAL_ALONE)
]


@pytest.mark.slow
def test_no_sentence_of_the_library_names_an_option() -> None:
    """A reader in Python has parameters; the command line makes its options of them."""
    naming = [
        f"{path.relative_to(PACKAGE)}:{line}: {text}"
        for path in LIBRARY
        for line, text in sentences(path)
        if any(flag not in OF_OTHERS for flag in FLAG.findall(text))
    ]
    assert naming == []


@pytest.mark.slow
def test_whatever_a_sentence_has_in_backticks_is_a_parameter_or_a_question() -> None:
    """So that none is shown at a terminal as Python has it."""
    import attncli.cli.app  # noqa: F401 - enrols the commands
    from attncli.cli.parameter_names_as_options import replace_parameters_by_options

    known = {
        "maps",
        "metrics",
        "tokenizer",
        "lengths",
        "hf auth login",
        "uniform",
        "role",
        "fully_shard",
        "fsdp_version: 2",
        "conditions",
        "size",
    }
    """Of functions that are no command, of others' programs, of reports."""
    of_python = {path for path in LIBRARY if "training" in path.relative_to(PACKAGE).parts}
    """No command leads there."""
    left = [
        f"{path.relative_to(PACKAGE)}:{line}: {text}"
        for path in LIBRARY
        if path not in of_python
        if room(path) not in ("render", "guides")  # markdown has backticks of its own
        for line, text in sentences(path)
        for code in re.findall("`(.*?)`", replace_parameters_by_options(text))
        if code not in known and not code.startswith("X")
    ]
    assert left == []


@pytest.mark.slow
def test_whatever_a_sentence_has_in_backticks_can_be_said_in_python() -> None:
    """So that nobody is told to give a keyword that only the command line has as an option."""
    import inspect

    asked = [getattr(attncli, name) for name in attncli.PUBLIC]
    asked += [getattr(attncli.reproduce, name) for name in dir(attncli.reproduce)]
    answers = [one for name, one in vars(attncli.Answer).items() if not name.startswith("_")]
    signed = [inspect.signature(one) for one in (*asked, *answers) if callable(one)]
    keywords = {name for signature in signed for name in signature.parameters}
    known = {*keywords, *attncli.PUBLIC, *dir(attncli.Answer), "torchrun", "lengths", "hf", "role"}
    known |= {"fully_shard", "fsdp_version"}
    of_commands = {"options/run_and_output.py": {"figure_size", "plot"}}
    """What outputs of commands are called is asked of them alone."""
    left = [
        f"{path.relative_to(PACKAGE)}:{line}: {text}"
        for path in LIBRARY
        if room(path) not in ("render", "guides", "training")
        for line, text in sentences(path)
        for code in re.findall("`([a-z_]+)", "".join(re.findall("`.*?`", text)))
        if code not in known | of_commands.get(path.relative_to(PACKAGE).as_posix(), set())
    ]
    assert left == []


@pytest.mark.slow
def test_refused_options_are_listed_by_their_parameters() -> None:
    """`idle`, `because` and `rivals` of an error, so that defaults of a configuration are told from what was typed."""
    for path in SOURCES:
        for node in nodes_of(path):
            if isinstance(node, ast.keyword) and node.arg in ("idle", "because", "rivals"):
                texts = [
                    each.value for each in ast.walk(node.value) if isinstance(each, ast.Constant)
                ]
                assert not [text for text in texts if str(text).startswith("-")], (
                    path,
                    node.lineno,
                )


ALWAYS_SEVERAL = {
    "analysis/fits/target_patterns.py",
    "commands/utilities/continuous_integration/command.py",
    "render/plots/axis_labels_and_captions.py",
    "analysis/heads/map_export/collected_maps.py",
    "capture/model_structure/module_paths.py",
}
"""Files that count what is none or several where they say so, or speak of numbers of checks."""


@pytest.mark.slow
def test_numbers_articles_and_verbs_agree() -> None:
    """`format_count`, `add_article` and `format_parameters_with_verb` of the error tree know of one and of several; no sentence spells them out."""
    wrong = []
    for path in SOURCES:
        name = path.relative_to(PACKAGE).as_posix()
        for node in nodes_of(path):
            parts = node.values if isinstance(node, ast.JoinedStr) else []
            for before, after in itertools.pairwise(parts):
                told = [
                    disagrees(before, after) and name not in ALWAYS_SEVERAL,
                    ends_in_article(before) and names_a_type(after),
                ]
                wrong += [f"{name}:{before.lineno}: {ast.unparse(node)}"] if any(told) else []
    assert wrong == []


def disagrees(number: ast.expr, words: ast.expr) -> bool:
    """`{len(labels)} labels`, `{parameters(names)} goes`."""
    if not isinstance(number, ast.FormattedValue) or not isinstance(words, ast.Constant):
        return False
    code, said = ast.unparse(number.value), str(words.value)
    counts = code.startswith("len(") and re.match(r" (?!is\b|was\b|has\b)[a-z]+s\b", said)
    return bool(counts or (code.startswith("parameters(") and re.match(r" [a-z]+s\b", said)))


def ends_in_article(words: ast.expr) -> bool:
    return isinstance(words, ast.Constant) and bool(re.search(r"\ba $", str(words.value)))


def names_a_type(value: ast.expr) -> bool:
    return isinstance(value, ast.FormattedValue) and "__name__" in ast.unparse(value.value)


READS_WORDS = {
    "cli/app.py": "what typer lacks and options that have become commands, before it reads the line",
    "cli/main.py": "--debug, which says how errors of the parser itself are shown",
    "cli/shell_completion.py": "where bash breaks a word",
    "cli/config/command_line_only_options.py": "options that count on the command line alone, however deep in command lines within values",
    "commands/utilities/sweep/command.py": "the words of a saved report, perhaps of another version",
}
"""Files that may look for dashes in the words of a command line, and why the parser cannot tell them."""


def looks_for_a_flag(node: ast.AST) -> bool:
    """`word.startswith("--task")`, `word == "--plot"`, `"--debug" in words`."""
    if isinstance(node, ast.Compare):  # with a lone dash it is stdin
        told, flag = [node.left, *node.comparators], "--"
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".startswith"):
        told, flag = [one for each in node.args for one in getattr(each, "elts", [each])], "-"
    else:
        return False
    words = [str(one.value) for one in told if isinstance(one, ast.Constant)]
    return any(word.startswith(flag) for word in words)


def test_a_command_line_is_read_by_its_parser_alone() -> None:
    """By the names of its parameters (`cli/command_tree.py`): a value may look like an option, and an option has many spellings."""
    found = {
        str(path.relative_to(PACKAGE))
        for path in SOURCES
        if {"cli", "python", "processes", "commands"} & set(path.relative_to(PACKAGE).parts[:1])
        for node in nodes_of(path)
        if looks_for_a_flag(node)
    }
    assert found == set(READS_WORDS)


RETIRED = set(
    re.findall(
        r"\w+",
        (
            "asked beside callers company given held kept judged manner rehearsal resting said saying "
            "stands surgery surroundings told traits twin wanted watching"
        ),
    )
)
"""Words that say nothing to a stranger: `../shared/vocabulary.md` of the design has what to write instead."""

RETIRED_IN_DOCSTRINGS = re.compile(
    r"(?<![.\w])(told|said|asked|rehearsal|surroundings|company|traits|twins?|stands beside|even attention)\b"
)

FIELD_NAMES = {
    "held_contribution": "the metric's name, which reports keep",
    "hidden_states": "transformers' argument of that name",
}
"""Names that break a law of names, and why they stay."""

MOST_TABLES = 25
"""With a layout of their own: fewer, never more."""

NOT_PARTICIPLES = {
    "mapping",
    "rounding",
    "embed",
    "exceed",
    "feed",
    "need",
    "proceed",
    "seed",
    "shed",
    "bring",
    "ring",
    "string",
}
IRREGULAR = set(
    re.findall(
        r"\w+",
        (
            "told said asked given found held kept made shown drawn taken left seen meant known "
            "written chosen gone done begun built brought bought caught felt lost paid sent sold "
            "stood thought understood spoken broken frozen hidden driven fallen"
        ),
    )
)


def words_of(name: str) -> list[str]:
    """`find_blocks`, `BlockFinder`: its words in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+", name)]


def is_participle(word: str) -> bool:
    return word not in NOT_PARTICIPLES and (
        word in IRREGULAR or re.fullmatch(r"\w{2,}(ed|ing)", word) is not None
    )


def defined_names(path: Path) -> list[str]:
    """Of modules, classes, functions and methods."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    nodes = nodes_of(path)
    return [path.stem, path.parent.name, *(node.name for node in nodes if isinstance(node, kinds))]


def test_no_name_has_a_retired_word() -> None:
    """Nothing that a stranger would have to open to know what it is."""
    retired = [
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in SOURCES
        for name in defined_names(path)
        if RETIRED & set(words_of(name)) and name not in FIELD_NAMES
    ]
    assert retired == []


def test_no_variable_has_a_retired_word() -> None:
    """Nor a parameter, a field, or what a method sets on its object."""
    names = {
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in SOURCES
        for node in nodes_of(path)
        if isinstance(node, ast.arg) or isinstance(getattr(node, "ctx", None), ast.Store)
        for name in (getattr(node, field, "") for field in ("arg", "id", "attr"))
        if RETIRED & set(words_of(name))
    }
    assert not names


def test_no_method_is_a_bare_participle() -> None:
    """`head.found`, `streams.attended` leave open what is found and attended, as functions do; public names stay, and "varying", of a
    state in two parts."""
    participles = {
        f"{node.name}.{method.name}"
        for path in SOURCES
        for node in nodes_of(path)
        if isinstance(node, ast.ClassDef)
        for method in node.body
        if isinstance(method, ast.FunctionDef) and "_" not in method.name
        if is_participle(method.name)
    }
    assert participles == {"Answer.passed", "AttnCallback.stopped", "SplitTensor.varying"}


def test_no_docstring_has_a_retired_word() -> None:
    kinds = (ast.Module, ast.FunctionDef, ast.ClassDef)
    retired = [
        f"{path.relative_to(PACKAGE)}:{getattr(node, 'lineno', 1)}: {word[0]}"
        for path in SOURCES
        for node in nodes_of(path)
        if isinstance(node, kinds)
        for word in RETIRED_IN_DOCSTRINGS.finditer(ast.get_docstring(node) or "")
    ]
    assert retired == []


def is_entry(path: Path, function: ast.FunctionDef) -> bool:
    """Of a registry, by a decorator or by its file's name, a rule for a function of torch, a context manager."""
    caches = ("cache", "lru_cache")
    decorated = any(not ast.unparse(each).startswith(caches) for each in function.decorator_list)
    return decorated or function.name == path.stem or function.name in FIELD_NAMES


def test_functions_begin_with_a_verb_or_a_noun() -> None:
    """A function does something or is a quantity; `given`, `found`, `masked` leave open what is given, found and masked."""
    participles = [
        f"{path.relative_to(PACKAGE)}: {node.name}"
        for path in SOURCES
        for node in tree_of(path).body
        if isinstance(node, ast.FunctionDef) and not is_entry(path, node)
        if is_participle(words_of(node.name)[0])
    ]
    assert participles == []


def test_only_tables_keep_their_own_layout() -> None:
    """`# fmt: skip` ends a table of the module, with a line for each entry; all else is wrapped as the formatter does."""
    skipped = [
        f"{path.relative_to(PACKAGE)}: {line}"
        for path in SOURCES
        for line in path.read_text().splitlines()
        if line.endswith("# fmt: skip")
    ]
    assert [each for each in skipped if each.partition(": ")[2][0] not in ")}]"] == []
    assert len(skipped) <= MOST_TABLES, skipped


FEWEST_LINES = 15
"""Of code: a shorter file sends its reader elsewhere for nothing."""

SHORT_FILES = {
    "__main__": "run by `python -m attncli`",
    "analysis/heads/report_rows/token_pair_and_completeness_definitions": "by `inspect-model` before anything heavy is imported",
    "analysis/bootstrap_quantile_errors": "the only statistics that need numpy",
    "forward_argument_types": "by every package that runs models",
    "capture/model_structure/module_paths": "by commands, without the search for blocks",
    "commands/reproduce/circle/arc_positions": "below everything that trains or draws the circle",
    "commands/reproduce/rank_heads/rank_head_metrics": "by gates, before torch is imported",
    "declare/dry_run": "one switch, which all processes of a command share",
    "io/json_files": "by readers of every format",
    "io/tensor_file_extensions": "without numpy, for options",
    "maths/head_capacity/low_rank_head": "a derivation of its own",
    "maths/curve_fits/evaluate_growth_law": "without numpy, for pages",
    "models/loading/random_init": "by every command with that control",
    "python/reproduce": "the module `attn.reproduce`",
    "render/plots/figure_files": "file names of plots, without matplotlib",
}
"""Files that are shorter all the same, and who needs them apart."""


def code_lines(path: Path) -> int:
    """Lines that are neither blank nor comment nor docstring."""
    text = path.read_text()
    kept: set[int] = set()
    empty = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)  # fmt: skip
    for each in tokenize.generate_tokens(io.StringIO(text).readline):
        if each.type not in empty:
            kept |= set(range(each.start[0], each.end[0] + 1))
    for node in nodes_of(path):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            kept -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(kept)


def test_no_file_is_a_scrap() -> None:
    """But entries of registries, and what is listed with its reason."""
    scraps = {
        path.relative_to(PACKAGE).with_suffix("").as_posix()
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py"
        if path.parent.relative_to(PACKAGE).as_posix() not in {*ENTRIES, "metrics/steps"}
        if code_lines(path) < FEWEST_LINES
    }
    assert scraps == set(SHORT_FILES)
