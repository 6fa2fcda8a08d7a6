"""`attn inspect-model maps.safetensors`: the numbers of saved maps, as if the model ran again."""

from collections.abc import Iterator
from typing import Any

from attncli.checkpoints.files.map_files import MapFile, SavedMap
from attncli.records import Report, Row
from attncli.studies import Progress, no_progress
from attncli.studies.chosen_heads import Chosen
from attncli.studies.head_findings import findings
from attncli.studies.head_roles import heads_of, role_rows
from attncli.studies.head_rows import Observed, head_rows, site_keys, unsettled_spectra
from attncli.studies.head_runs import Observer, Seen, Wanted
from attncli.studies.head_views import ranked, views
from attncli.studies.inspect_model import Plan, census, headline
from attncli.studies.uniform_null import UniformNull


def inspect_maps(file: MapFile, plan: Plan, progress: Progress = no_progress) -> Report:
    """Only what maps show: no states, no outputs, and no roles that need a text of their own."""
    maps = [saved for saved in file.maps if plan.layers is None or saved.site.layer in plan.layers]
    seen = observe(file, maps, plan, progress)
    own = Observed([seen], numbers={saved.site: saved.heads for saved in maps})
    rows = list(rows_of(own, plan))
    heads = heads_of(rows) if plan.metrics.roles else []
    told = findings(rows, heads, [file.labels]) if plan.metrics.roles else ()
    rows = [*role_rows(heads), *rows]
    identity: dict[str, Any] = {"kind": "maps", "path": str(file.path), "model": file.model}
    return Report(
        study="inspect-model",
        headline=headline(
            identity,
            own,
            heads,
            [finding.about for finding in told],
            Chosen.of({saved.site: saved.heads for saved in file.maps}, plan.layers, plan.keeps),
        ),
        rows=tuple(ranked(rows, plan.ranking)),
        metrics=plan.metrics.definitions(),
        source={**identity, "attention": census(own)},
        input={"tokens": seen.tokens},
        views=tuple(views(rows, plan.metrics, plan.ranking, 1)),
        findings=told,
        warnings=tuple(unsettled_spectra([seen])),
    )


def observe(file: MapFile, maps: list[SavedMap], plan: Plan, progress: Progress) -> Seen:
    """Every map in strips; what asks for another round is read again."""
    wanted = Wanted(plan.metrics.heads)
    observer = Observer(wanted, UniformNull(), str(file.path), lambda share: None)
    for done, saved in enumerate(maps):
        again = True
        while again:
            for strip in file.strips(saved):
                again = observer.strip(saved.site, strip)
        progress(done + 1, len(maps), "maps")
    observer.finish()
    return observer.seen


def rows_of(own: Observed, plan: Plan) -> Iterator[Row]:
    yield from head_rows(plan.metrics.heads, own, {}, site_keys(own.sites, ()), plan.keeps)
