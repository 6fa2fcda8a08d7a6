"""Metadata of saved maps: results of the run that maps on a text do not contain.

Roles come from a text of their own; head outputs and states are in no map. Their rows are saved as
reported, with the keys that distinguish heads and the census of layers.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from attncli.analysis.heads.report_rows.head_rows import Keeps
from attncli.analysis.heads.report_rows.layer_counts_by_mixer import LayerCounts
from attncli.errors import InputError
from attncli.metrics.attention import ATTENTION, is_metric_of_map_alone
from attncli.records import Row, Scalar
from attncli.reports.json_report_reading import collect_report_row_keys
from attncli.reports.json_to_dataclasses import convert_json_value

ROLES_ON, ROWS, KEYS, LAYERS, WHOLE = "roles_on", "rows", "keys", "layers", "whole"
"""In a file's metadata."""


@dataclass(frozen=True)
class MapMetadata:
    """The metadata to save, or read from a file."""

    layers: LayerCounts | None = None
    roles_on: str = ""
    """The text on which roles were classified; empty where unknown."""
    keys: Mapping[str, Mapping[str, Scalar]] = field(default_factory=dict)
    """By tensor name: the row keys of its heads."""
    rows: tuple[Row, ...] = ()
    of_layers: int | None = None
    """Number of attention layers in the whole model, whichever were saved."""
    of_heads: int | None = None

    @classmethod
    def parse_map_metadata(cls, metadata: Mapping[str, str]) -> "MapMetadata":
        """Read the metadata of a file, which may have none; entries that cannot be parsed are
        refused."""
        if ROWS not in metadata:
            return cls()
        try:
            rows = [collect_report_row_keys(row, ROWS) for row in json.loads(metadata[ROWS])]
            return cls(
                convert_json_value(LayerCounts, json.loads(metadata[LAYERS]), LAYERS),
                metadata[ROLES_ON],
                convert_json_value(
                    Mapping[str, Mapping[str, Scalar]], json.loads(metadata[KEYS]), KEYS
                ),
                tuple(convert_json_value(Row, row, ROWS) for row in rows),
                *convert_json_value(tuple[int, ...], json.loads(metadata[WHOLE]), WHOLE)[:2],
            )
        except (ValueError, KeyError, TypeError, RecursionError, InputError) as error:
            raise InputError(
                f"its metadata are not what `inspect_model(save_maps=FILE)` writes ({error}): save the maps once more."
            ) from None

    @property
    def file_metadata(self) -> dict[str, str]:
        assert self.layers is not None
        return {
            ROLES_ON: self.roles_on,
            LAYERS: json.dumps(asdict(self.layers)),
            KEYS: json.dumps(self.keys),
            ROWS: json.dumps([row.flat() for row in self.rows], allow_nan=False),
            WHOLE: json.dumps([self.of_layers, self.of_heads]),
        }

    def select_saved_rows(
        self, metric: str, layers: Collection[int] | None, selects: Keeps
    ) -> Sequence[Row]:
        """The saved rows of a metric, for the requested heads and layers."""
        return [
            row
            for row in self.rows
            if row.metric == metric
            and (row.head is None or layers is None or row.layer in layers)
            and (row.head is None or row.layer is None or selects(row.layer, row.head))
        ]


def is_metric_unavailable_from_maps(metric: str) -> bool:
    """Whether maps on a text cannot give this metric; roles are measured on maps of another text."""
    return (
        metric not in ATTENTION.names()
        or not is_metric_of_map_alone(metric)
        or bool(ATTENTION.declaration_of_entry(metric).text)
    )
