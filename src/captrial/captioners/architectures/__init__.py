"""The architectures that captrial trains, one file each; `captrial.captioners.registry` lists them.

`layers` has the embeddings, cells and attentions they share, `recurrent` the step of the LSTM captioners, and
`transformer` the parts that SMArT, M2 and ORT build on.
"""

__all__: list[str] = []
