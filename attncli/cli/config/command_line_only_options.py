"""Options that only the command line may set: they run code, write or delete, which is the user's
decision.

A configuration file comes with the folder that one works in, such as a repository that was just
cloned, and the environment may come with it too; neither may decide it for the user. The rule
`set_by`, where an option is declared, marks these options.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from attncli.cli.command_tree import iterate_commands, list_command_words, root_command
from attncli.errors import UsageError


@cache
def list_command_line_only_flags() -> Mapping[str, str]:
    """Effect of each such option, by all its spellings: `--output`, `-o`."""
    return {
        flag: rule.why
        for _, command in iterate_commands(root_command(), ())
        for option in command.params
        for rule in command.callback.rules.get(option.name, ())
        if "file" not in rule.set_by
        for flag in option.opts
    }


def refuse_command_line_only_setting(option: str, value: object, where: str) -> None:
    """Refuse such an option when it is set elsewhere, also inside a value that is a command line."""
    refuse_command_line_only_options([option], where)
    for text in value if isinstance(value, list) else [value]:
        if isinstance(text, str):
            refuse_command_line_only_options(split_command_line_into_words(text), where)


def refuse_command_line_only_options(
    words: Iterable[str], where: str, advice: str = "give it there"
) -> None:
    """Refuse such options among the words of a command line that the user has not typed."""
    for word in words:
        for flag in split_combined_flags(word):
            if flag in list_command_line_only_flags():
                raise UsageError(
                    f"{where}: {flag} {list_command_line_only_flags()[flag]}, so it counts on the command line alone: {advice}."
                )
        refuse_command_line_only_options(
            split_command_line_into_words(word.partition("=")[2] if is_long_flag(word) else word),
            where,
            advice,
        )


def split_combined_flags(word: str) -> Iterator[str]:
    """`--output=x` is --output; `-qox` may be -q and -o."""
    if is_long_flag(word):
        yield word.partition("=")[0]
    elif word.startswith("-"):
        yield from (f"-{letter}" for letter in word[1:])


def is_long_flag(word: str) -> bool:
    return word.startswith("--")


def split_command_line_into_words(text: str) -> list[str]:
    """Split a value that is a command line, as in --by 'inspect-model --metric sink'; other values
    give no words."""
    try:
        words = shlex.split(text)
    except ValueError:  # whoever reads it as a command line refuses it, too
        return []
    begins = words[1:2] if words[:1] == ["attn"] else words[:1]
    return words if len(words) > 1 and set(begins) & first_words_of_commands() else []


@cache
def first_words_of_commands() -> set[str]:
    return {path[0] for path in list_command_words()}
