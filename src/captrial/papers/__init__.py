"""The experiments of the three papers as declared protocols: every table and figure, the papers' numbers beside ours.

`papers.json` declares what there is (exhibits: tables and figures, how ours are made, what stands in for what, what
the paper printed); `mad`, `grounding` and `attention` make ours; `running` keeps what is finished; `writing` makes one
page, tables and figures of it.
"""
