"""What a Python expression returns, as JSON; reports as they are saved and as their text."""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any


def value_of(expression: str) -> Any:
    """Reports, numbers, texts and lists of them; an exception as its kind and sentence."""
    import numpy as np
    import torch
    import transformers as hf
    from golden import objects

    import attncli as attn

    names = {**vars(objects), "attn": attn, "np": np, "torch": torch, "hf": hf, "Path": Path}
    try:
        return as_json(eval(expression, names))
    except Exception as error:
        return {"exception": type(error).__name__, "sentence": str(error)}


def as_json(value: Any) -> Any:
    if hasattr(value, "rows") and hasattr(value, "save"):
        return {"report": saved(value), "text": value.text()}
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: as_json(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): as_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    return value if isinstance(value, int | float | str | None) else str(value)


def saved(report: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        report.save(f"{folder}/report.json")
        return json.loads((Path(folder) / "report.json").read_text())
