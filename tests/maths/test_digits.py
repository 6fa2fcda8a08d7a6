import pytest

from attncli.maths.number_format import (
    format_number,
    format_short_number,
    format_with_standard_deviation,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.000"),
        (3.0, "3.000"),
        (-0.69301, "-0.6930"),
        (-171506.6, "-171,507"),
        (1e12, "1.000e+12"),
        (2.5e-7, "2.500e-07"),
    ],
)
def test_four_significant_digits(value: float, text: str) -> None:
    assert format_number(value) == text


@pytest.mark.parametrize(
    ("value", "spread", "text"),
    [
        (-77.3012, 1.2345, "-77.3 ± 1.2"),
        (-171506.6, 2796.3, "-171,507 ± 2,796"),
        (3.0000001, 5e-6, "3.000 ± 0.000"),
        (-0.0049, 0.0026, "-0.0049 ± 0.0026"),
        (1.0, 0.0, "1.000 ± 0.000"),
        (3.974e-16, 1.2e-16, "3.974e-16 ± 1.200e-16"),
    ],
)
def test_the_spread_sets_the_digits(value: float, spread: float, text: str) -> None:
    assert format_with_standard_deviation(value, spread) == text


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.5, 6, "0.5"),
        (25.0, 4, "25"),
        (1234.56, 6, "1,234.56"),
        (-1543566.2, 6, "-1,543,566"),
        (6.44e140, 3, "6.44e+140"),
        (2.5e-7, 4, "2.5e-07"),
    ],
)
def test_short_numbers_have_neither_trailing_zeros_nor_exponents_below_a_billion(
    value: float, digits: int, text: str
) -> None:
    assert format_short_number(value, digits) == text
