"""The annotation room: a web application for people who describe, inspect and compare captions.

store.py        the database: one transaction a change, on disk before it is acknowledged
people.py       accounts, invitations, roles
rules.py        COCO's writing rules, checked where a program can
assignment.py   who does what next: never twice, exact overlap, leases that expire
rounds.py       qualification, writing, inspecting, judging
overview.py     progress, agreement, statistics
outcome.py      references.jsonl and judgements.jsonl, kept current for the competition; exports
app.py          the web application; security.py, pages and templates
simulate.py     annotators made of reference captions, over the HTTP API
"""
