"""Selection of the images to label: those on which two models' captions are least similar.

`registry` lists the similarities; the names below need neither numba nor pyarrow, so that the command line can show
them. `ngram_similarity` computes the default similarity (NGSM), `selection` searches the pool, and `token_rows` turns
captions into token numbers.
"""

from captrial.compete.selection.registry import (
    SIMILARITIES,
    CaptionSimilarity,
    SimilarityEntry,
    similarity_help,
    similarity_named,
)

__all__ = ["SIMILARITIES", "CaptionSimilarity", "SimilarityEntry", "similarity_help", "similarity_named"]
