"""One maker per name that a forward may ask for, by what the model reads."""

from collections.abc import Mapping

from attncli.models.random.makers.drawing import Drawing, Maker
from attncli.models.random.makers.images import IMAGES
from attncli.models.random.makers.others import OTHERS
from attncli.models.random.makers.sound import SOUND
from attncli.models.random.makers.text import TEXT

MAKERS: Mapping[str, Maker] = {**TEXT, **IMAGES, **SOUND, **OTHERS}

__all__ = ["MAKERS", "Drawing", "Maker"]
