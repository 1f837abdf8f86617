"""Colours as people see them: contrast by WCAG, distance by CIEDE2000, also without some cones."""

import math
from collections.abc import Mapping

Triple = tuple[float, float, float]
Matrix = tuple[Triple, Triple, Triple]
MACHADO: Mapping[str, Matrix] = {
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
"""What linear RGB becomes without one kind of cone (Machado, Oliveira, Fernandes 2009)."""
TO_XYZ: Matrix = (
    (0.4124564, 0.3575761, 0.1804375),
    (0.2126729, 0.7151522, 0.0721750),
    (0.0193339, 0.1191920, 0.9503041),
)
WHITE: Triple = (0.95047, 1.0, 1.08883)  # D65
VISIONS = ("all cones", *MACHADO)
FAR = 25.0**7


def linear(colour: str) -> Triple:
    """The linear RGB of a colour such as #1f57c3."""
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return _linear(red), _linear(green), _linear(blue)


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours by WCAG 2, from 1 to 21."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def distance(one: str, other: str, vision: str = "all cones") -> float:
    """Return the CIEDE2000 distance of two colours for a given vision."""
    return ciede2000(_lab(one, vision), _lab(other, vision))


def _linear(value: float) -> float:
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def _luminance(colour: str) -> float:
    return _times((TO_XYZ[1],) * 3, linear(colour))[0]


def _times(matrix: Matrix, value: Triple) -> Triple:
    first, second, third = (sum(map(float.__mul__, row, value)) for row in matrix)
    return first, second, third


def _lab(colour: str, vision: str) -> Triple:
    """Return the CIE L*, a*, b* of a colour for a given vision."""
    seen = linear(colour)
    if vision in MACHADO:
        red, green, blue = _times(MACHADO[vision], seen)
        seen = min(max(red, 0.0), 1.0), min(max(green, 0.0), 1.0), min(max(blue, 0.0), 1.0)
    x, y, z = (
        _cubic(value / white) for value, white in zip(_times(TO_XYZ, seen), WHITE, strict=True)
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def _cubic(value: float) -> float:
    return value ** (1 / 3) if value > 216 / 24389 else (24389 / 27 * value + 16) / 116


def ciede2000(one: Triple, other: Triple) -> float:
    """The difference by the formula of CIE 142-2001, with all weights 1."""
    mean = (math.hypot(*one[1:]) + math.hypot(*other[1:])) / 2
    stretch = 1.5 - 0.5 * math.sqrt(mean**7 / (mean**7 + FAR))
    chromas = [math.hypot(stretch * lab[1], lab[2]) for lab in (one, other)]
    hues = [math.degrees(math.atan2(lab[2], stretch * lab[1])) % 360 for lab in (one, other)]
    turn = (hues[1] - hues[0] + 180) % 360 - 180 if all(chromas) else 0.0
    hue = (hues[0] + turn / 2) % 360 if all(chromas) else sum(hues)
    lightness, chroma = (one[0] + other[0]) / 2, sum(chromas) / 2
    by_hue = (
        1
        - 0.17 * math.cos(math.radians(hue - 30))
        + 0.24 * math.cos(math.radians(2 * hue))
        + 0.32 * math.cos(math.radians(3 * hue + 6))
        - 0.20 * math.cos(math.radians(4 * hue - 63))
    )
    off = (lightness - 50) ** 2
    in_lightness = (other[0] - one[0]) / (1 + 0.015 * off / math.sqrt(20 + off))
    in_chroma = (chromas[1] - chromas[0]) / (1 + 0.045 * chroma)
    across = 2 * math.sqrt(chromas[0] * chromas[1]) * math.sin(math.radians(turn / 2))
    in_hue = across / (1 + 0.015 * chroma * by_hue)
    bend = 30 * math.exp(-(((hue - 275) / 25) ** 2))
    rotation = -2 * math.sqrt(chroma**7 / (chroma**7 + FAR)) * math.sin(math.radians(2 * bend))
    return math.sqrt(in_lightness**2 + in_chroma**2 + in_hue**2 + rotation * in_chroma * in_hue)
