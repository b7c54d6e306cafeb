"""How much each caption of an image agrees with the other models' captions of it: known without any label.

*By n-grams*: the share of a caption's n-grams that another model's caption also has, the mean over the other models and
over n = 1, 2. An n-gram counts by the rarity of its words, log((1 + images) / images with the word) in the same block
of the pool, as in CIDEr: that two captions both say "a" says little. It costs one pass over the pool, linear in the
number of words; weights may differ between blocks, since a sample's probabilities are known whatever the rates are.

*By meaning* (`--similarity semantic`): 1 - (1 - S)^2, the mean over the other models, where S is the similarity of two
captions by the `semantic` metric. The squared difference of two captions' semantic scores was measured to grow with the
square of 1 - S, the squared difference of their CIDEr in proportion to what n-grams they do not share: in both, the
expected squared difference is proportional to the disagreement, 1 - agreement.

Two things are made from it: how likely an image is to be sampled (`design`: where captions disagree, scores differ),
and the control variates of the pool's ranking (`ranking.estimates`: captions that agree with others score higher).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from captrial.compete.selection.token_rows import TokenEncoder, TokenRows
from captrial.compete.storage.caption_pool import CaptionSource
from captrial.errors import InputError
from captrial.kernels import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ORDERS = 2  # n-grams of one and two words; longer ones were measured to add nothing
SEMANTIC = "semantic"  # the similarity whose competitions measure agreement by meaning; all others do by n-grams


def pool_agreement(pool: CaptionSource, models: Sequence[int], similarity: str) -> NDArray[np.float32]:
    """(images, len(models)): the agreement of these models with each other on every image, in the order of the pool.

    `similarity` is that of the competition's selection.
    """
    if len(models) < 2:
        raise InputError("agreement is between captions of at least two models")
    encoder = TokenEncoder()
    parts = []
    for index in range(pool.blocks):
        captions = pool.block(index, models).captions
        if similarity == SEMANTIC:
            found = semantic_agreement([[text or "" for text in column.to_pylist()] for column in captions])
        else:
            found = caption_agreement(encoder.encode(pa.concat_arrays(captions)), len(models))
        parts.append(found.astype(np.float32))
    return np.concatenate(parts) if parts else np.zeros((0, len(models)), np.float32)


def caption_agreement(captions: TokenRows, models: int) -> Floats:
    """(images, models): the agreement of each caption; `captions` are all of the first model, then of the second, ...

    A caption without n-grams of an order (it is empty, or one word long) agrees with nothing in that order.
    """
    images = len(captions) // models
    found_in = np.zeros(int(captions.tokens.max(initial=0)) + 1, np.int64)
    _count_images(captions.tokens, captions.offsets, models, images, found_in)
    rarity = np.log((1 + images) / np.maximum(found_in, 1))
    lengths = np.diff(captions.offsets).reshape(models, images)
    most = int(lengths.sum(axis=0).max(initial=0))  # n-grams of one image at most
    total = np.zeros((images, models))
    _add_shares(captions.tokens, captions.offsets, rarity, 4 << max(most, 1).bit_length(), total)
    return total / ORDERS


def semantic_agreement(captions: Sequence[Sequence[str]]) -> Floats:
    """(images, models): the agreement by meaning of each caption; `captions` are those of the first model, ..."""
    from captrial.metrics.semantic.semantic import sentence_similarities  # needs an extra

    total = np.zeros((len(captions[0]), len(captions)))
    for (first, second), similarity in sentence_similarities(captions).items():
        agreed = 1 - (1 - similarity) ** 2
        total[:, first] += agreed
        total[:, second] += agreed
    return total / (len(captions) - 1)


@kernel()
def _count_images(tokens: NDArray[np.int32], offsets: Ints, models: int, images: int, found_in: Ints) -> None:
    """Add, for every word, in how many images at least one caption has it."""
    last = np.full(len(found_in), -1, np.int64)
    for image in range(images):
        for model in range(models):
            row = model * images + image
            for at in range(offsets[row], offsets[row + 1]):
                if last[tokens[at]] != image:
                    last[tokens[at]] = image
                    found_in[tokens[at]] += 1


@kernel()
def _add_shares(tokens: NDArray[np.int32], offsets: Ints, rarity: Floats, size: int, total: Floats) -> None:
    """Add, for every order, the share of a caption's distinct n-grams that another caption has, mean over the others.

    The n-grams of one image are in a table of `size` slots (a power of two, never more than a quarter full).
    """
    images, models = total.shape
    keys, holders = np.empty(size, np.int64), np.zeros(size, np.int64)  # holders: captions that have the n-gram
    seen = np.full(size, -1, np.int64)  # the last caption that was counted
    used = np.empty(size, np.int64)
    for image in range(images):
        for order in range(1, ORDERS + 1):
            count = 0
            for visit in range(2 * models):  # every caption twice: to count holders, then to read them
                model = visit % models
                row = model * images + image
                distinct, shared = 0.0, 0.0
                for at in range(offsets[row], offsets[row + 1] - order + 1):
                    key, weight = np.int64(tokens[at]), rarity[tokens[at]]
                    if order == 2:
                        key = (key << 32) | np.int64(tokens[at + 1])
                        weight += rarity[tokens[at + 1]]
                    slot = ((key ^ (key >> 29)) * 0x9E3779B1) & (size - 1)
                    while holders[slot] and keys[slot] != key:
                        slot = (slot + 1) & (size - 1)
                    if not holders[slot]:
                        keys[slot], used[count] = key, slot
                        count += 1
                    if seen[slot] != visit:
                        seen[slot] = visit
                        if visit < models:
                            holders[slot] += 1
                        else:
                            distinct += weight
                            shared += weight * (holders[slot] - 1)
                if distinct > 0:
                    total[image, model] += shared / (distinct * (models - 1))
            for index in range(count):
                holders[used[index]], seen[used[index]] = 0, -1
