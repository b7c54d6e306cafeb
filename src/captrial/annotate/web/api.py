"""The JSON API that the pages' scripts and simulated annotators use."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Path, Response

from captrial.annotate import accounts
from captrial.annotate.accounts import Person
from captrial.annotate.export import export
from captrial.annotate.overview import progress, speeds, statistics
from captrial.annotate.rounds.qualification import is_needed, qualify
from captrial.annotate.settings import Settings, read_settings, write_settings
from captrial.annotate.web.context import Lead, Member, Shared
from captrial.annotate.web.forms import (
    PROBLEMS,
    Changes,
    Choice,
    Draft,
    Invitation,
    Refusal,
    Sentence,
    Text,
    Undo,
    Vote,
)
from captrial.annotate.writing_rules import RULES, check
from captrial.errors import ImageError, InputError

router = APIRouter(responses=PROBLEMS)

Round = Literal["write", "inspect", "judge"]
Number = Annotated[int, Path(ge=1, le=2**31 - 1)]
Answer = dict[str, Any]
BINARY = {"type": "string", "format": "binary"}


@router.get("/api/me")
def me(person: Member, context: Shared) -> Answer:
    """Who I am and what there is to do."""
    with context.room.store.read() as connection:
        settings = read_settings(context.room.store, connection)
        return {
            "name": person.name,
            "role": person.role,
            "consented": person.consented,
            "qualified": person.qualified,
            "consent": settings.consent,
            "rounds": rounds_of(person, settings),
            "qualification": is_needed(connection),
            "rules": list(RULES),
        }


@router.post("/api/consent")
def agree(person: Member, context: Shared) -> Answer:
    """Accept the consent text; where there is no qualification this is all that is needed."""
    store = context.room.store
    with store.change() as connection:
        accounts.consent(store, connection, person.id)
        if not person.qualified and (person.role == "inspector" or not is_needed(connection)):
            qualify(store, connection, person.id)
    return {"ok": True}


@router.get("/api/next/{round_}")
async def following(round_: Round, person: Member, context: Shared) -> Answer:
    """The item I work on now."""
    return await context.change(context.room.next, round_, person)


@router.post("/api/write")
async def write(body: Sentence, person: Member, context: Shared) -> Answer:
    """Submit a sentence; it is on disk when this returns."""
    return await context.change(context.room.write, person, body.item, body.text, body.key)


@router.post("/api/refuse")
async def refuse(body: Refusal, person: Member, context: Shared) -> Answer:
    """Say that an image cannot be described."""
    return await context.change(context.room.refuse, person, body.item, body.reason, body.key)


@router.post("/api/vote")
async def vote(body: Vote, person: Member, context: Shared) -> Answer:
    """Vote on a sentence."""
    return await context.change(context.room.vote, person, body.item, body.right, body.reason, body.key)


@router.post("/api/judge")
async def judge(body: Choice, person: Member, context: Shared) -> Answer:
    """Choose the better caption."""
    return await context.change(context.room.judge, person, body.item, body.winner, body.key)


@router.post("/api/undo/{round_}")
async def undo(round_: Round, body: Undo, person: Member, context: Shared) -> Answer:
    """Take back my last sentence, vote or choice; sent twice with the same key it takes back one."""
    return await context.change(context.room.undo, person, round_, body.key)


@router.put("/api/draft")
async def draft(body: Draft, person: Member, context: Shared) -> Answer:
    """Keep what I am writing."""
    await context.change(context.room.save_draft, person, body.item, body.text)
    return {"ok": True}


@router.post("/api/check")
async def check_text(body: Text, person: Member) -> Answer:
    """What the writing rules say about a text."""
    return {"hints": [{"rule": hint.rule, "text": hint.text} for hint in check(body.text)]}


@router.get("/api/qualification")
def trial(person: Member, context: Shared) -> Answer:
    """The next image of the qualification."""
    return context.room.next_trial(person)


@router.post("/api/qualification")
def try_sentence(body: Draft, person: Member, context: Shared) -> Answer:
    """A sentence of the qualification."""
    return context.room.try_sentence(person, body.item, body.text)


@router.get(
    "/image/{number}", response_class=Response, responses={200: {"content": {"image/jpeg": {"schema": BINARY}}}}
)
def image(number: Number, person: Member, context: Shared) -> Response:
    """An image by number, re-encoded and without metadata."""
    name = context.room.image_id(number)
    if name is None:
        raise HTTPException(404, "there is no such image")
    try:
        content = context.images.jpeg(name)
    except ImageError:
        raise HTTPException(404, "this image cannot be opened") from None
    headers = {"Cache-Control": "private, max-age=86400", "Content-Disposition": "inline"}
    return Response(content, media_type="image/jpeg", headers=headers)


@router.get("/api/lead/overview")
def overview(person: Lead, context: Shared) -> Answer:
    """Progress, statistics, people."""
    store = context.room.store
    with store.read() as connection:
        settings = read_settings(store, connection)
        rounds = [
            {"round": part.round, "done": part.done, "wanted": part.wanted, "hours_left": part.hours_left}
            for part in progress(connection, settings)
        ]
        return {"progress": rounds, "statistics": statistics(connection, settings), "people": speeds(connection)}


@router.get("/api/lead/ranking")
def ranking(person: Lead, context: Shared, metric: Literal["cider", "bleu_4", "rouge_l", "nw"] = "cider") -> Answer:
    """The ranking as labels stand, with intervals; how far people's sentences and preferences agree."""
    return context.live.get(metric)


@router.post("/api/lead/invite")
def invite(body: Invitation, person: Lead, context: Shared) -> Answer:
    """Invite somebody: the link is shown once."""
    store = context.room.store
    with store.change() as connection:
        invited, token = accounts.invite(store, connection, body.name, body.role, person.id)
    return {"id": invited.id, "name": invited.name, "role": invited.role, "path": f"/join/{token}"}


@router.post("/api/lead/people/{number}/renew")
def renew(number: Number, person: Lead, context: Shared) -> Answer:
    """A new link for somebody."""
    store = context.room.store
    with store.change() as connection:
        _existing(accounts.by_id(connection, number), number)
        return {"path": f"/join/{accounts.renew_invitation(store, connection, number, person.id)}"}


@router.post("/api/lead/people/{number}/qualify")
def qualify_person(number: Number, person: Lead, context: Shared) -> Answer:
    """Let somebody take part without the test."""
    store = context.room.store
    with store.change() as connection:
        _existing(accounts.by_id(connection, number), number)
        qualify(store, connection, number, person.id)
    return {"ok": True}


@router.delete("/api/lead/people/{number}")
def remove(number: Number, person: Lead, context: Shared) -> Answer:
    """Remove somebody's data."""
    if number == person.id:
        raise InputError("you cannot remove yourself")
    store = context.room.store
    with store.change() as connection:
        _existing(accounts.by_id(connection, number), number)
        accounts.remove(store, connection, number, person.id)
        context.room.refresh_images(connection)
    context.sessions.forget()
    context.room.sync()
    return {"ok": True}


@router.patch("/api/lead/settings")
def change_settings(body: Changes, person: Lead, context: Shared) -> Answer:
    """Change settings."""
    store = context.room.store
    with store.change() as connection:
        before = read_settings(store, connection)
        given = {name: value for name, value in body.model_dump().items() if value is not None}
        write_settings(store, connection, Settings(**{**vars(before), **given}), person.id)
        context.room.refresh_images(connection)
    context.room.sync()
    return {"ok": True}


@router.get(
    "/api/lead/export/{form}",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {"schema": BINARY}}}},
)
def download(
    form: Literal["coco", "jsonl", "csv", "sentences", "audit"], person: Lead, context: Shared, names: bool = False
) -> Response:
    """Export what there is; people are numbers, unless their names are asked for."""
    store = context.room.store
    with store.read() as connection:
        content, name = export(connection, read_settings(store, connection), form, names)
    with store.change() as connection:  # apart: an export is long, and people who work wait for changes
        store.note(connection, person.id, "export", f"{form} with names" if names else form)
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type="application/octet-stream", headers=headers)


def rounds_of(person: Person, settings: Settings) -> list[str]:
    """The rounds a person takes part in."""
    rounds = {"annotator": ["write"], "inspector": ["inspect"], "lead": []}[person.role]
    rounds = [name for name in rounds if name != "inspect" or settings.inspectors]
    return rounds + (["judge"] if settings.judges and person.role != "lead" else [])


def _existing(person: Person | None, number: int) -> Person:
    if person is None:
        raise HTTPException(404, f"there is no person {number}")
    return person
