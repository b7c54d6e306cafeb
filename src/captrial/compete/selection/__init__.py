"""Selection of the images to label: those on which two models' captions are least similar.

`registry` lists the similarities, `ngram_similarity` computes the default one (NGSM), `selection` searches the pool,
and `token_rows` turns captions into token numbers.
"""

from captrial.compete.selection.ngram_similarity import PairwiseSimilarity, ngram_similarity
from captrial.compete.selection.registry import SIMILARITIES, CaptionSimilarity, SimilarityEntry, similarity_named
from captrial.compete.selection.selection import (
    PairSelection,
    RankedImages,
    SearchOptions,
    rank_images,
    select,
    select_diverse,
)
from captrial.compete.selection.token_rows import TokenEncoder, TokenRows

__all__ = [
    "SIMILARITIES",
    "CaptionSimilarity",
    "PairSelection",
    "PairwiseSimilarity",
    "RankedImages",
    "SearchOptions",
    "SimilarityEntry",
    "TokenEncoder",
    "TokenRows",
    "ngram_similarity",
    "rank_images",
    "select",
    "select_diverse",
    "similarity_named",
]
