"""Words: tokeniser, vocabulary, nouns and phrases, word vectors, synonyms."""

from captrial.language.tokenizer import tokenize, tokenize_all

__all__ = ["tokenize", "tokenize_all"]
