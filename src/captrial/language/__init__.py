"""Words of captions: tokeniser, vocabulary, sentences, nouns, classes, word vectors and similarity.

- `tokenizer`: Penn Treebank tokens as the COCO toolkit has them; `token_spans`: phrases counted in these tokens.
- `sentences`: the first sentence of a caption; `english`: whether a caption is English.
- `vocabulary`: the words of a captioner as ids.
- `nouns`, `morphology`: nouns, noun phrases and lemmas through spaCy; `text_cache`: its results on disk.
- `class_words`: words for classes; `vectors`, `vector_files`: vectors and their files; `similarity`: both combined.

Names are imported when first used: `vocabulary` alone does not load the tokeniser.
"""

from typing import TYPE_CHECKING

from captrial.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from captrial.language.english import looks_english, not_english
    from captrial.language.sentences import first_sentence, first_words
    from captrial.language.tokenizer import tokenize, tokenize_all

__all__ = ["first_sentence", "first_words", "looks_english", "not_english", "tokenize", "tokenize_all"]

__getattr__ = lazy_exports(
    __name__,
    {
        "english": "looks_english not_english",
        "sentences": "first_sentence first_words",
        "tokenizer": "tokenize tokenize_all",
    },
)
