"""Images of digits with their labels: MNIST's files, or synthetic ones that need no data."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from passnet.config.tasks import FlatMnistTask, SequentialMnistTask
from passnet.tasks import draws
from passnet.tasks.data import read

_FONT = (
    "01110 10001 10011 10101 11001 10001 01110",
    "00100 01100 00100 00100 00100 00100 01110",
    "01110 10001 00001 00110 01000 10000 11111",
    "01110 10001 00001 00110 00001 10001 01110",
    "00010 00110 01010 10010 11111 00010 00010",
    "11111 10000 11110 00001 00001 10001 01110",
    "00110 01000 10000 11110 10001 10001 01110",
    "11111 00001 00010 00100 01000 01000 01000",
    "01110 10001 10001 01110 10001 10001 01110",
    "01110 10001 10001 01111 00001 00010 01100",
)


@dataclass(frozen=True)
class Digits:
    """Grey images [count, side, side] in 0 .. 255 and their digits [count]."""

    images: Tensor
    labels: Tensor

    def followed_by(self, others: Digits) -> Digits:
        """These and then the others."""
        return Digits(
            torch.cat([self.images, others.images]), torch.cat([self.labels, others.labels])
        )

    def pooled(self, by: int) -> Digits:
        """Squares of `by` x `by` pixels averaged into one, for shorter sequences."""
        if by == 1:
            return self
        means = functional.avg_pool2d(self.images.unsqueeze(1).float(), by).squeeze(1)
        return Digits(means.round().to(torch.uint8), self.labels)


def load(
    given: SequentialMnistTask | FlatMnistTask, *, data_dir: str | None = None
) -> dict[str, Digits]:
    """The splits train, valid and test; of MNIST the last sixth of the training file validates."""
    if given.source == "mnist":
        return _mnist(data_dir)
    splits = zip(("train", "valid", "test"), given.sizes, strict=True)
    return {split: synthetic(split, size) for split, size in splits}


def _mnist(data_dir: str | None) -> dict[str, Digits]:
    # `read` has compared the digest, so all that is to be known of the header is where it ends.
    whole = {}
    for part in ("train", "t10k"):
        images, labels = (
            torch.frombuffer(
                bytearray(read("mnist", f"{part}-{what}-ubyte", data_dir=data_dir)),
                dtype=torch.uint8,
                offset=header,
            )
            for what, header in (("images-idx3", 16), ("labels-idx1", 8))
        )
        whole[part] = Digits(images.view(-1, 28, 28), labels.long())
    train, cut = whole["train"], len(whole["train"].labels) - len(whole["train"].labels) // 6
    return {
        "train": Digits(train.images[:cut], train.labels[:cut]),
        "valid": Digits(train.images[cut:], train.labels[cut:]),
        "test": whole["t10k"],
    }


def synthetic(split: str, size: int) -> Digits:
    """Digits of a 5 x 7 font, moved, stretched, slanted, dimmed and speckled; 28 x 28 pixels.

    Nobody wrote these by hand: scores on them say that a program works, and nothing about MNIST.
    Only sums, products and comparisons of float64 are used, so the pixels are the same everywhere.
    """
    place = draws.key("synthetic digits", 0, split)
    parts = [_draw(place, torch.arange(low, min(low + 2000, size))) for low in range(0, size, 2000)]
    images, labels = zip(*parts, strict=True)
    return Digits(torch.cat(images), torch.cat(labels))


def _draw(place: int, rows: Tensor) -> tuple[Tensor, Tensor]:
    # A frame of empty cells lets a look-up outside a glyph find nothing.
    font = torch.zeros(10, 11, 9, dtype=torch.float64)
    for digit, glyph in enumerate(_FONT):
        lines = [[float(cell) for cell in line] for line in glyph.split()]
        font[digit, 2:9, 2:7] = torch.tensor(lines, dtype=torch.float64)
    labels = draws.integers(draws.key(place, "label"), rows, slots=1, high=10)[0]
    unit = draws.uniform(draws.key(place, "shape"), rows, slots=7).double()
    unit = unit.view(7, -1, 1, 1)
    down, across = unit[0] * 6 - 3, unit[1] * 6 - 3
    tall, wide = 2.4 + unit[2] * 0.8, 2.4 + unit[3] * 1.2
    slant, tilt, ink = unit[4] * 0.6 - 0.3, unit[5] * 0.3 - 0.15, 160 + unit[6] * 95
    y = torch.arange(28, dtype=torch.float64).view(1, 28, 1) - 13.5 - down
    x = torch.arange(28, dtype=torch.float64).view(1, 1, 28) - 13.5 - across
    row = ((y + tilt * x) / tall + 5.0).clamp(0, 9.999)
    column = ((x + slant * y) / wide + 4.0).clamp(0, 7.999)
    top, left = row.floor(), column.floor()
    low, right = row - top, column - left
    cell = labels.view(-1, 1, 1) * 99 + top.long() * 9 + left.long()
    flat = font.flatten()
    above = flat[cell] * (1 - right) + flat[cell + 1] * right
    below = flat[cell + 9] * (1 - right) + flat[cell + 10] * right
    grey = (above * (1 - low) + below * low) * ink
    speckle = draws.uniform(draws.key(place, "speckle"), rows, slots=784).double()
    grey = grey + ((speckle - 0.9).clamp(min=0) * 600).t().reshape(-1, 28, 28)
    return grey.clamp(0, 255).round().to(torch.uint8), labels
