"""Types that were found by `tests/coverage/every_command.py`, which tries them all: no command ends in a bug, or lets a library speak."""

import pytest
from commands import attn
from coverage.every_command import COMMANDS, asked
from fuzz.forks import Case, faults_of

FOUND = {
    "cut streams that run, but for eager attention": ("musicgen_melody", "rank-collapse MODEL"),
    "code that fails on any input": ("chmv2", "rank-collapse MODEL"),
    "code that fails on streams side by side": ("clvp_encoder", "paths MODEL"),
    "layers that differ in heads": ("dots3_note_text", "attribute MODEL --token -1"),
    "maps as large as it likes": ("fastspeech2_conformer", "head-capacity MODEL --length 6"),
    "rows that see nothing": ("granite_speech_encoder", "head-capacity MODEL --length 6"),
    "a config that advises while it is written": ("cohere_compass", "inspect-weights MODEL"),
    "code that advises while it runs": ("nemotron_asr_streaming_encoder", "rank-collapse MODEL"),
    "an image, run again in float64": ("phi4_multimodal_vision", "paths MODEL --by head"),
    "layers of several lengths": ("informer", "paths MODEL --sample 1"),
    "fewer states than tokens": ("groupvit_vision_model", "sensitivity MODEL --directions 1"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", FOUND)
def test_no_command_ends_in_a_bug(case: str) -> None:
    kind, command = FOUND[case]
    assert command in COMMANDS
    outcome = attn(*asked(kind, command))
    assert not faults_of(Case(list(asked(kind, command))), outcome.code, False, outcome.err, 0), (
        outcome.err
    )
