"""The architectures that captrial trains, one file each; `captrial.captioners.registry` lists them.

`attention` has the two attentions of the field, `recurrent` what the LSTM captioners share, and `transformer` the parts
that SMArT, M2 and ORT build on.
"""

__all__: list[str] = []
