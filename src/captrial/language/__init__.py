"""Words: tokeniser, vocabulary, nouns and phrases, word vectors, synonyms."""
