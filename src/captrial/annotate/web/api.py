"""The JSON API that the scripts of the pages and simulated annotators use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import fields
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Path, Request, Response
from pydantic import BaseModel, Field, create_model

from captrial.annotate import accounts
from captrial.annotate.accounts import MAX_NAME, Person
from captrial.annotate.import_export import EXPORTS
from captrial.annotate.live_ranking import LiveMetric
from captrial.annotate.rounds.base import Answer, AnswerForm, Form, Item, Key, require_consent
from captrial.annotate.rounds.qualification import is_needed
from captrial.annotate.rounds.registry import ROUNDS, get_round, rounds_of
from captrial.annotate.rounds.write import RULES, CaptionText, check
from captrial.annotate.settings import MAX_CONSENT, AnnotationSettings
from captrial.annotate.web.links import qr_url
from captrial.annotate.web.sessions import Context, Lead, Member
from captrial.captioners.chat_client import is_local
from captrial.errors import ImageError, InputError

Number = Annotated[int, Path(ge=1, le=2**31 - 1)]
RankBy = LiveMetric | Literal["preferences"]
BINARY = {"type": "string", "format": "binary"}


class ErrorForm(BaseModel):
    """Why a request was refused."""

    detail: str


_REASONS = {
    401: "Nobody is signed in.",
    403: "The role may not do this, or not yet; or the request came from another site.",
    404: "Not found.",
    409: "Others have finished the item, or it is too early or too late for this.",
    411: "The request has a body but no length.",
    413: "The request is too large.",
    422: "Something in the request is not valid.",
    429: "Too many requests: wait as long as `Retry-After` says.",
}
ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": ErrorForm, "description": reason} for code, reason in _REASONS.items()
}


class UndoForm(Form):
    """Undo my last answer."""

    key: Key


class DraftForm(Form):
    """A caption that is being written."""

    item: Item
    text: CaptionText


class TextForm(Form):
    """A text to check."""

    text: CaptionText


class InvitationForm(Form):
    """A person to invite."""

    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
    role: Literal["annotator", "inspector", "lead"]


def _settings_form() -> type[Form]:
    """A form with every field of `AnnotationSettings`, all optional."""
    consent = Annotated[str, Field(max_length=MAX_CONSENT, pattern=r"^[^\x00]*$")]
    found: dict[str, Any] = {"consent": (consent | None, None)}
    for entry in fields(AnnotationSettings):
        if entry.metadata:
            number = type(entry.default)
            limits = Field(ge=entry.metadata["least"], le=entry.metadata["most"])
            found[entry.name] = (Annotated[number, limits] | None, None)
    return create_model("SettingsForm", __base__=Form, __doc__="Settings to change.", **found)


SettingsForm = _settings_form()


def create_router() -> APIRouter:
    """All routes of the API, with those of every round in the registry."""
    router = APIRouter(responses=ERRORS)
    _add_round_routes(router)
    router.include_router(_annotators)
    router.include_router(_lead)
    return router


# Rounds --------------------------------------------------------------------------------------------------------------


def _add_round_routes(router: APIRouter) -> None:
    name = Annotated[str, Path(json_schema_extra={"enum": list(ROUNDS)})]  # the API's description lists the rounds
    next_item.__annotations__["round_"] = undo.__annotations__["round_"] = name
    router.add_api_route("/api/next/{round_}", next_item)
    for round_ in ROUNDS.values():
        for form in round_.forms:
            path = f"/api/{form.action}"
            router.add_api_route(path, _submit_to(round_.name, form), methods=["POST"], summary=form.__doc__)
    router.add_api_route("/api/undo/{round_}", undo, methods=["POST"])


def _submit_to(round_name: str, form: type[AnswerForm]) -> Callable[..., Awaitable[Answer]]:
    async def submit(body: Any, person: Member, context: Context) -> Answer:
        """Submit an answer; it is on disk when this returns."""
        return await context.change(context.service.submit, round_name, person, body)

    submit.__annotations__["body"] = form
    submit.__name__ = form.action
    return submit


async def next_item(round_: str, person: Member, context: Context) -> Answer:
    """The item I work on now."""
    return await context.change(context.service.next, round_, person)


async def undo(round_: str, body: UndoForm, person: Member, context: Context) -> Answer:
    """Undo my last answer in a round; sent twice with the same key it undoes one."""
    return await context.change(context.service.undo, person, round_, body.key)


# Annotators ----------------------------------------------------------------------------------------------------------

_annotators = APIRouter()


@_annotators.get("/api/me")
def me(person: Member, context: Context) -> Answer:
    """Who I am and what there is to do."""
    settings = context.service.settings()
    with context.service.store.read() as connection:
        qualification = is_needed(connection)
    return {
        "name": person.name,
        "role": person.role,
        "consented": person.consented,
        "qualified": person.qualified,
        "consent": settings.consent,
        "rounds": [round_.name for round_ in rounds_of(person, settings)],
        "qualification": qualification,
        "rules": list(RULES),
    }


@_annotators.post("/api/consent")
def agree(person: Member, context: Context) -> Answer:
    """Accept the consent text; where there is no qualification nothing else is needed."""
    store = context.service.store
    with store.change() as connection:
        accounts.consent(store, connection, person.id)
        if not person.qualified and (person.role == "inspector" or not is_needed(connection)):
            accounts.qualify(store, connection, person.id)
    return {"ok": True}


@_annotators.put("/api/draft")
async def draft(body: DraftForm, person: Member, context: Context) -> Answer:
    """Save the caption I am writing."""
    await context.change(context.service.save_draft, person, body.item, body.text)
    return {"ok": True}


@_annotators.post("/api/check")
async def check_text(body: TextForm, person: Member) -> Answer:
    """Check a text against the writing rules."""
    return {"hints": [{"rule": hint.rule, "text": hint.text} for hint in check(body.text)]}


@_annotators.get("/api/qualification")
def next_practice(person: Member, context: Context) -> Answer:
    """The next image of the qualification."""
    return context.service.next_practice(person)


@_annotators.post("/api/qualification")
def submit_practice(body: DraftForm, person: Member, context: Context) -> Answer:
    """Submit a caption of the qualification."""
    return context.service.submit_practice(person, body.item, body.text)


@_annotators.get(
    "/image/{number}", response_class=Response, responses={200: {"content": {"image/jpeg": {"schema": BINARY}}}}
)
def image(number: Number, person: Member, context: Context) -> Response:
    """An image by number, re-encoded and without metadata; for people who have accepted the consent text."""
    if person.role != "lead":
        require_consent(person)
    name = context.service.image_id(number)
    if name is None:
        raise HTTPException(404, "there is no such image")
    try:
        content = context.images.jpeg(name)
    except ImageError:
        raise HTTPException(404, "this image cannot be opened") from None
    headers = {"Cache-Control": "private, max-age=86400", "Content-Disposition": "inline"}
    return Response(content, media_type="image/jpeg", headers=headers)


# The lead ------------------------------------------------------------------------------------------------------------

_lead = APIRouter()


@_lead.get("/api/lead/overview")
def overview(person: Lead, context: Context) -> Answer:
    """Progress, statistics, people."""
    found = context.service.report()
    rounds = [
        {
            "round": part.round,
            "title": get_round(part.round).progress_title,
            "done": part.done,
            "wanted": part.wanted,
            "hours_left": part.hours_left,
        }
        for part in found["progress"]
    ]
    return {**found, "progress": rounds}


@_lead.get("/api/lead/ranking")
def ranking(person: Lead, context: Context, metric: RankBy = "cider") -> Answer:
    """The ranking by the labels so far, with intervals; the agreement of captions and of preferences."""
    return context.live_ranking.get(metric)


@_lead.post("/api/lead/invite")
def invite(body: InvitationForm, request: Request, person: Lead, context: Context) -> Answer:
    """Invite a person; their link is shown only once."""
    invited, path = context.service.invite(body.name, body.role, person.id)
    return {"id": invited.id, "name": invited.name, "role": invited.role, **_link(request, context, path)}


@_lead.post("/api/lead/people/{number}/renew")
def renew(number: Number, request: Request, person: Lead, context: Context) -> Answer:
    """A new link for a person; the old one, their password and their sessions stop working."""
    store = context.service.store
    with store.change() as connection:
        _existing(accounts.by_id(connection, number), number)
        token = accounts.renew_invitation(store, connection, number, person.id)
    context.sessions.clear_cache()
    return _link(request, context, f"/join/{token}")


@_lead.post("/api/lead/people/{number}/qualify")
def qualify_person(number: Number, person: Lead, context: Context) -> Answer:
    """Let a person take part without the qualification."""
    store = context.service.store
    with store.change() as connection:
        _existing(accounts.by_id(connection, number), number)
        accounts.qualify(store, connection, number, person.id)
    return {"ok": True}


@_lead.delete("/api/lead/people/{number}")
def remove(number: Number, person: Lead, context: Context) -> Answer:
    """Remove a person's data."""
    if number == person.id:
        raise InputError("you cannot remove yourself")
    with context.service.store.read() as connection:
        _existing(accounts.by_id(connection, number), number)
    context.service.remove_person(number, person.id)
    context.sessions.clear_cache()
    return {"ok": True}


@_lead.patch("/api/lead/settings")
def change_settings(body: SettingsForm, person: Lead, context: Context) -> Answer:  # type: ignore[valid-type]
    """Change settings."""
    given: dict[str, Any] = dict(body)
    context.service.change_settings({name: value for name, value in given.items() if value is not None}, person.id)
    return {"ok": True}


@_lead.get(
    "/api/lead/export/{form}",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {"schema": BINARY}}}},
)
def download(
    form: Annotated[str, Path(json_schema_extra={"enum": list(EXPORTS)})],
    person: Lead,
    context: Context,
    names: bool = False,
) -> Response:
    """Download an export; people are numbers, unless their names are asked for."""
    content, name = context.service.export(form, names, person.id)
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type="application/octet-stream", headers=headers)


def _link(request: Request, context: Context, path: str) -> Answer:
    """A link as the lead's browser reaches this server, and its QR code.

    A lead on this machine may have opened `localhost`, which leads a phone nowhere: then the address that `serve` said.
    """
    base, served = str(request.base_url), context.service.last_address()
    if served and is_local(base) and not is_local(served):
        base = served
    link = f"{base.rstrip('/')}{path}"
    return {"path": path, "link": link, "qr": qr_url(link)}


def _existing(person: Person | None, number: int) -> Person:
    if person is None:
        raise HTTPException(404, f"there is no person {number}")
    return person
