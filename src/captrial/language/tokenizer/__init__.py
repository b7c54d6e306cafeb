"""Penn Treebank tokens as the COCO toolkit has them, without Java.

The toolkit passes captions to Stanford's tokeniser, lower-cases the tokens and removes a list of punctuation. Here
`characters` classifies every character, `grammar` has the rules, and `tokenize` applies them; the great majority of
captions need no grammar and are tokenised in bulk.
"""

from captrial.language.tokenizer.tokenize import tokenize, tokenize_all

__all__ = ["tokenize", "tokenize_all"]
