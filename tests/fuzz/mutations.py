"""Ways to break a file that know what kind of file it is."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

TEXTS = ("", "x", "a\nb", "\x1b[31m", "::error::x", "\u202e", "\x00", "nan", "-1", "1" * 5000, "é" * 300, "=1", "../x", "layer", "1e400")  # fmt: skip
NUMBERS = (
    0,
    1,
    -1,
    -2,
    2,
    3,
    5,
    7,
    0.5,
    -0.5,
    1e-310,
    1e308,
    -1e308,
    2**31,
    2**63,
    10**19,
    10**40,
    1e19,
)
OTHERS = (None, True, False, [], {}, [1], [[]], {"a": 1}, [None], ["x"], float("nan"), float("inf"))
VALUES: tuple[Any, ...] = (*TEXTS, *NUMBERS, *OTHERS)
DTYPES = {
    **{"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1},
    **{"U16": 2, "U32": 4, "U64": 8, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1, "C64": 8},
}
WEIRD = (np.nan, np.inf, -np.inf, 1e300, -1e300, 5e-324, 1e-310, 0.0, -1.0, 1.0, 2.0, 1e10)


def spoilt_bytes(rng: Random, content: bytes) -> bytes:
    """Cut, flipped, doubled, stuffed: whatever a disk or a wrong tool does."""
    if not content:
        return rng.randbytes(rng.randrange(20))
    place = rng.randrange(len(content))
    way = rng.randrange(6)
    if way == 0:
        return content[:place]
    if way == 1:
        return (
            content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :]
        )
    if way == 2:
        return content[:place] + rng.randbytes(rng.randrange(1, 9)) + content[place:]
    if way == 3:
        return content + rng.randbytes(rng.randrange(1, 40))
    if way == 4:
        end = min(len(content), place + rng.randrange(1, 40))
        return content[:place] + content[end:]
    return rng.randbytes(rng.randrange(80))


def spoilt_text(rng: Random, text: str) -> str:
    """The same for text, with pieces that parsers trip over."""
    pieces = ("[" * 3000, "{" * 3000, "((", "\\", '"', "'", " " * 3000, "a" * 3000, ",,", "\n", "\r", "\x00", "\t", "=", "NaN", "-", "1e999", "9" * 5000, "é", "\ufeff", "\u2028", "٣")  # fmt: skip
    place = rng.randrange(len(text) + 1)
    end = min(len(text), place + rng.randrange(8))
    return text[:place] + rng.choice(pieces) + text[end:]


def paths(document: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON document."""
    found = [prefix] if prefix else []
    members = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in members:
        found += (
            paths(value, (*prefix, key)) if isinstance(value, dict | list) else [(*prefix, key)]
        )
    return found


def spoilt_json(rng: Random, document: Any, often: int = 2) -> Any:
    """Some values replaced, dropped, renamed or moved."""
    document = json.loads(json.dumps(document))
    for _ in range(rng.randint(1, often)):
        places = paths(document)
        if not places:
            break
        *way, last = rng.choice(places)
        inside = document
        for step in way:
            inside = inside[step]
        change = rng.randrange(8)
        if change == 0:
            del inside[last]
        elif change == 1 and isinstance(inside, dict):
            inside[rng.choice(TEXTS)] = inside.pop(last)
        elif change == 2 and isinstance(inside, list):
            inside.append(inside[last])
        elif change == 3 and type(inside[last]) in (int, float):
            inside[last] = rng.choice(
                (-inside[last], inside[last] + 1, inside[last] * 2, inside[last] / 2)
            )
        else:
            inside[last] = rng.choice(VALUES)
    return document


def spoilt_json_text(rng: Random, document: Any) -> str:
    """A document with other values, or text that is nearly JSON."""
    if rng.random() < 0.8:
        return json.dumps(spoilt_json(rng, document))
    return spoilt_text(rng, json.dumps(document))


def split_safetensors(content: bytes) -> tuple[dict[str, Any], bytes]:
    start = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:start]), content[start:]


def joined(header: Any, data: bytes) -> bytes:
    text = json.dumps(header).encode("utf-8", "surrogatepass")
    return len(text).to_bytes(8, "little") + text + data


def spoilt_safetensors(rng: Random, content: bytes) -> bytes:
    """Structure first: types, shapes, names, numbers; then bytes."""
    header, data = split_safetensors(content)
    ways: tuple[Callable[[], bytes], ...] = (
        *[lambda: other_numbers(rng, header, data)] * 6,
        lambda: other_type(rng, header, data),
        lambda: other_shape(rng, header, data),
        lambda: without_one(rng, header, data),
        lambda: joined(renamed(rng, header), data),
        lambda: joined(other_metadata(rng, header), data),
        lambda: joined(spoilt_json(rng, header), data),
        lambda: spoilt_bytes(rng, content),
        lambda: content[:8] + spoilt_bytes(rng, content[8 : 8 + len(json.dumps(header))]) + data,
    )
    return rng.choice(ways)()


def names_of(header: dict[str, Any]) -> list[str]:
    return [name for name in header if name != "__metadata__"]


def other_numbers(rng: Random, header: dict[str, Any], data: bytes) -> bytes:
    """Numbers that are legal and odd."""
    name = rng.choice(names_of(header))
    start, end = header[name]["data_offsets"]
    kinds = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8"}
    if header[name]["dtype"] not in kinds or start == end:
        return joined(header, data)
    array = np.frombuffer(data[start:end], kinds[header[name]["dtype"]]).copy()
    with np.errstate(all="ignore"):
        if rng.random() < 0.3:
            array = (array * rng.choice((0.0, -1.0, 2.0, 1e-3, 1e3, 1e30))).astype(array.dtype)
        for _ in range(rng.randint(1, 3)):
            odd = rng.choice(WEIRD)
            array[rng.randrange(len(array))] = (
                odd if array.dtype.kind == "f" else int(np.clip(np.nan_to_num(odd), -9, 9))
            )
    return joined(header, data[:start] + array.tobytes() + data[end:])


def other_type(rng: Random, header: dict[str, Any], data: bytes) -> bytes:
    """Another dtype of consistent size: the numbers' bytes mean something else, or the last axis grows."""
    header = json.loads(json.dumps(header))
    entry = header[rng.choice(names_of(header))]
    kind = rng.choice(sorted(DTYPES))
    width, old = DTYPES[kind], DTYPES.get(entry["dtype"], 4)
    if entry["shape"] and (entry["shape"][-1] * old) % width == 0:
        entry["shape"][-1] = entry["shape"][-1] * old // width
    entry["dtype"] = kind
    return joined(header, data)


def other_shape(rng: Random, header: dict[str, Any], data: bytes) -> bytes:
    """As many numbers along other axes."""
    header = json.loads(json.dumps(header))
    entry = header[rng.choice(names_of(header))]
    shape = entry["shape"]
    entry["shape"] = rng.choice(
        (shape[::-1], [*shape, 1], [1, *shape], [int(np.prod(shape))], [0, *shape], shape[1:])
    )
    return joined(header, data)


def without_one(rng: Random, header: dict[str, Any], data: bytes) -> bytes:
    """A tensor less, the others moved up."""
    name = rng.choice(names_of(header))
    start, end = header[name]["data_offsets"]
    kept = json.loads(
        json.dumps({other: entry for other, entry in header.items() if other != name})
    )
    for entry in (kept[other] for other in names_of(kept)):
        if entry["data_offsets"][0] >= end:
            entry["data_offsets"] = [place - (end - start) for place in entry["data_offsets"]]
    return joined(kept, data[:start] + data[end:])


def renamed(rng: Random, header: dict[str, Any]) -> dict[str, Any]:
    name = rng.choice(names_of(header))
    others = (f"{name}x", name.replace("0", "1"), name.replace("0", "00"), f"model.{name}", *TEXTS)
    new = rng.choice(others)
    return {new if key == name else key: entry for key, entry in header.items()}


def other_metadata(rng: Random, header: dict[str, Any]) -> dict[str, Any]:
    """Text by text as the format asks, or not."""
    said = dict(header.get("__metadata__") or {"format": "pt"})
    name = rng.choice((*said, "x"))
    inner = said.get(name, "1")
    try:
        mutated = spoilt_json_text(rng, json.loads(inner))
    except (ValueError, TypeError):
        mutated = rng.choice(TEXTS)
    said[name] = rng.choice((mutated, mutated, rng.choice(TEXTS), rng.choice(VALUES)))
    return {**header, "__metadata__": rng.choice((said, said, said, rng.choice(VALUES)))}
