"""N-gram metrics: BLEU, ROUGE-L and CIDEr as the COCO toolkit computes them, and CIDEr's document frequencies.

- `bleu`, `rouge`, `cider`: the metrics and their states.
- `document_frequencies`: tables of document frequencies, saved and loaded.
- `cider_reward`: CIDEr-D of token ids, as a reward for training (compiles with numba; import it directly).
- `cider_subsets`: CIDEr of several systems on any subset of images (compiles with numba; import it directly).
"""

from captrial.metrics.ngram.bleu import bleu
from captrial.metrics.ngram.cider import cider, cider_plain
from captrial.metrics.ngram.document_frequencies import DocumentFrequencies
from captrial.metrics.ngram.rouge import rouge_l

__all__ = ["DocumentFrequencies", "bleu", "cider", "cider_plain", "rouge_l"]
