"""spaCy's parse of a caption, bent to what the original's parser would have said.

SPICE 1.0 reads captions with an unlexicalised grammar learned from newspapers (CoreNLP's englishPCFG). spaCy is usually
right where that parser is wrong, but a score is only comparable if it is wrong in the same way. The rules were found by
comparing with the original's tuples; they depend on tags, positions and short word lists, never on whole captions.
"""

from __future__ import annotations

from captrial.metrics.spice.attachment import attach_prepositions, flatten, join_conjuncts
from captrial.metrics.spice.clauses import read_clauses
from captrial.metrics.spice.parse import Parse
from captrial.metrics.spice.tagging import correct_tags


def imitate(parse: Parse) -> None:
    """Change tags, heads and labels of a parse in place."""
    correct_tags(parse)
    flatten(parse)
    join_conjuncts(parse)
    read_clauses(parse)
    attach_prepositions(parse)
