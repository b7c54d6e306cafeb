"""Selection of the images to label: those on which two models' captions are least similar.

`registry` lists the similarities, `ngram_similarity` computes the default one (NGSM), `selection` searches the pool,
and `token_rows` turns captions into token numbers.

Names are imported when first used, so that the command line can read the registry without numba and pyarrow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from captrial.compete.selection.ngram_similarity import PairwiseSimilarity, ngsm
    from captrial.compete.selection.registry import SIMILARITIES, CaptionSimilarity, SimilarityEntry, similarity_named
    from captrial.compete.selection.selection import (
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
    "PairwiseSimilarity",
    "RankedImages",
    "SearchOptions",
    "SimilarityEntry",
    "TokenEncoder",
    "TokenRows",
    "ngsm",
    "rank_images",
    "select",
    "select_diverse",
    "similarity_named",
]
_MODULES = {
    "CaptionSimilarity": "registry",
    "PairwiseSimilarity": "ngram_similarity",
    "RankedImages": "selection",
    "SIMILARITIES": "registry",
    "SearchOptions": "selection",
    "SimilarityEntry": "registry",
    "TokenEncoder": "token_rows",
    "TokenRows": "token_rows",
    "ngsm": "ngram_similarity",
    "rank_images": "selection",
    "select": "selection",
    "select_diverse": "selection",
    "similarity_named": "registry",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
