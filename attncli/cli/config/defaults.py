"""Defaults of the environment and the configuration file, as one run takes them: those that do not apply are left out.

Whoever refuses options names them on the error (`idle`, `because`, `rivals`), so nothing here knows an option: the
run begins anew without the defaults that were named, until it is refused for what the command line says, or runs.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from attncli.cli.root import is_typed, path_of, runner
from attncli.cli.spelling import as_typed
from attncli.declare.commands import COMMANDS
from attncli.declare.dry_run import STAGE, Rehearsed
from attncli.errors import AttnError, UsageError

APART = ("about.", "generate.")
"""Folders of commands that ask no question of attention."""
RUNNABLE = tuple(name for name, entry in COMMANDS.items() if not entry.function.startswith(APART))
"""Commands that can be rehearsed: they say by `before_the_work` where the work begins."""


@dataclass
class Rehearsal:
    """What became of a run's defaults."""

    left_out: dict[str, str] = field(default_factory=dict)
    """Why, by the parameter's name."""
    overruled: set[str] = field(default_factory=set)
    """Parameters that the command line gives."""

    def fate(self, parameter: Any) -> str:
        """What becomes of the parameter's default, in words."""
        if parameter.name in self.overruled:
            return "the command line says otherwise"
        why = self.left_out.get(parameter.name)
        return f"left out: {why}" if why else "applies"


REHEARSAL = Rehearsal()
"""Of this process."""


def run_with_defaults(context: Any, run: Callable[[Any], Any]) -> Any:
    """Run the command; where it refuses a default rather than the command line, once more without it."""
    note_overruled(context)
    if STAGE.rehearsing and " ".join(path_of(context)) not in RUNNABLE:
        raise Rehearsed
    while True:
        try:
            return run(context)
        except AttnError as error:
            refused = defaults_to_leave_out(context, error)
            if not refused:
                raise
            for parameter in refused:
                leave_out(context, parameter)
                REHEARSAL.left_out[parameter.name] = as_typed(str(error))


def defaults_to_leave_out(context: Any, error: AttnError) -> list[Any]:
    """The options that mean nothing here, else those that make what was typed mean nothing, else the typed one's rivals."""
    for names in (error.idle, error.because):
        found = [one for one in named(context, names) if is_default(context, one)]
        if found:
            return found
    rivals = named(context, error.rivals)
    found = [one for one in rivals if is_default(context, one)]
    if found and len(found) == len(rivals):
        places = ", ".join(dict.fromkeys(where(context, one) for one in found))
        raise UsageError(f"{places}: {error}") from error
    return found


def named(context: Any, names: tuple[str, ...]) -> list[Any]:
    """The command's parameters of these names."""
    return [one for one in context.command.params if one.name in names]


def is_default(context: Any, parameter: Any) -> bool:
    source = context.get_parameter_source(parameter.name)
    return source is not None and source.name == "DEFAULT_MAP"


def leave_out(context: Any, parameter: Any) -> None:
    """As if it were set nowhere."""
    defaults = {
        name: value for name, value in context.default_map.items() if name != parameter.name
    }
    context.default_map = defaults
    value, source = parameter.consume_value(context, {})
    context.params[parameter.name] = parameter.process_value(context, value)
    context.set_parameter_source(parameter.name, source)


def where(context: Any, parameter: Any) -> str:
    """The line of the file, or the variable, that has set it."""
    from attncli.cli.config.settings import settings

    own = settings(context.find_root().command)
    return next(
        one.where for one in own if one.command == path_of(context) and one.option is parameter
    )


def note_overruled(context: Any) -> None:
    names = (one.name for one in context.command.params)
    REHEARSAL.overruled = {name for name in names if is_typed(context, name)}


def rehearse(words: list[str]) -> Rehearsal:
    """The command line up to where its work would begin; its own refusals are raised."""
    STAGE.rehearsing, REHEARSAL.left_out, REHEARSAL.overruled = True, {}, set()
    try:
        runner()(words, prog_name="attn", standalone_mode=False)
    except Rehearsed:
        pass
    finally:
        STAGE.rehearsing = False
    return REHEARSAL
