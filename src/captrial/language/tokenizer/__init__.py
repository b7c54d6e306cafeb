"""Penn Treebank tokens as the COCO toolkit has them, without Java.

The toolkit gives captions to Stanford's tokeniser, lower-cases, and takes out a list of punctuation. Here `alphabet`
says what each character counts as, `grammar` has the rules and `lexer` follows them; `plain` does the great majority of
captions, which need no grammar, in bulk.
"""

from captrial.language.tokenizer.tokenize import tokenize, tokenize_all

__all__ = ["tokenize", "tokenize_all"]
