"""Words of captions: tokeniser, vocabulary, sentences, nouns, classes, word vectors and similarity.

- `tokenizer`: Penn Treebank tokens as the COCO toolkit has them; `token_spans`: phrases counted in these tokens.
- `sentences`: the first sentence of a caption; `english`: whether a caption is English.
- `vocabulary`: the words of a captioner as ids.
- `nouns`, `morphology`: nouns, noun phrases and lemmas through spaCy; `text_cache`: its results on disk.
- `class_words`: words for classes; `vectors`, `vector_files`: word vectors; `similarity`: both combined.

Names are imported when first used: `vocabulary` alone does not load the tokeniser.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from captrial.language.english import looks_english, not_english
    from captrial.language.sentences import first_sentence, first_words
    from captrial.language.tokenizer import tokenize, tokenize_all

__all__ = ["first_sentence", "first_words", "looks_english", "not_english", "tokenize", "tokenize_all"]
_NAMES = {
    "english": ("looks_english", "not_english"),
    "sentences": ("first_sentence", "first_words"),
    "tokenizer": ("tokenize", "tokenize_all"),
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for module, names in _NAMES.items():
        if name in names:
            return getattr(import_module(f"captrial.language.{module}"), name)
    raise AttributeError(f"module 'captrial.language' has no attribute {name!r}")
