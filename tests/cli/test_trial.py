"""`captrial trial`: the file it writes, exit codes and what it prints."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from annotate.test_browser import Desk
from captrial.cli.app import main
from chromium import chromium
from cli.commands import answer, run_captrial
from judges.test_trial_file import World, own_cache  # noqa: F401  (a cache of its own for every test)

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def ending(line: list[str]) -> object:
    with pytest.raises(SystemExit) as ended:
        main(line)
    return ended.value.code


def test_init_writes_a_file_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.yaml"
    run_captrial(["trial", "init", str(path)])
    assert "models:" in path.read_text()
    path.write_text("mine")
    assert ending(["trial", "init", str(path)]) == 2
    assert path.read_text() == "mine"
    assert ending(["trial", "run", str(path)]) == 2
    assert "key: value" in capsys.readouterr().err


def test_run_until_it_is_complete(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ExitStack() as stack:
        world = World(tmp_path, stack)
        assert ending(["trial", "run", str(world.file)]) == 3
        printed = capsys.readouterr().out
        assert "JUDGE ONLY" in printed
        assert "captrial annotate serve" in printed
        world.vote(12)
        found = answer(capsys, ["trial", "run", str(world.file)])
        assert (found["complete"], found["requests"]) == (True, 0)
        run_captrial(["trial", "run", str(world.file)])
        assert "votes on 12 of 20 judged items" in capsys.readouterr().out
        assert json.loads((tmp_path / "trial" / "trial.json").read_text())["complete"]
        page = (tmp_path / "trial" / "report" / "index.html").read_text()
        assert "Verdicts of the judge on 20 items, corrected by votes of people on 12 of them" in page
        assert " at 0x" not in page  # no object of Python
        assert "JUDGE ONLY" not in page


def vote_in_browser(browser: Browser, lead_link: str, votes: int) -> list[str]:
    """The lead invites a person, who compares captions by keyboard; what went wrong in the pages."""
    lead = Desk(browser, lead_link)
    lead.page.wait_for_url("**/lead")
    lead.page.locator("#invite [name=name]").fill("somebody")
    lead.page.keyboard.press("Enter")
    lead.page.get_by_text("Send this link to somebody").wait_for()
    person = Desk(browser, lead.page.locator("#invited code").text_content() or "")
    person.page.wait_for_url("**/consent")
    person.page.locator("#agree").click()
    person.page.wait_for_url("**/judge")
    shown = person.page.locator("[data-show='captions.0']")
    for _ in range(votes):
        person.page.wait_for_function("() => document.querySelector('[data-show]').textContent")
        key = "1" if "good" in (shown.text_content() or "") else "2"
        before = person.item
        with person.page.expect_response("**/api/judge"):
            person.page.keyboard.press(key)
        person.page.wait_for_function(
            "before => !document.getElementById('image').getAttribute('src').endsWith('/' + before)", arg=before
        )
    troubles = lead.troubles + person.troubles
    lead.context.close()
    person.context.close()
    return troubles


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_one_command_with_people_in_a_browser(tmp_path: Path) -> None:
    """`trial run --serve`: captions, judge, annotation pages, and when these are closed the ranking and the report."""
    with ExitStack() as stack:
        world = World(tmp_path, stack)
        line = [sys.executable, "-m", "captrial", "trial", "run", str(world.file), "--serve", "--port", "0"]
        process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
        stack.callback(process.kill)
        assert process.stdout is not None
        stack.callback(process.stdout.close)
        link = next(found[0] for said in process.stdout if (found := re.search(r"http://\S+/join/\S+", said)))
        browser = stack.enter_context(chromium())
        assert not vote_in_browser(browser, link, 13)
        process.send_signal(signal.SIGINT)
        printed = process.stdout.read()
        assert process.wait() == 0, printed
        assert "1 │ plain" in printed
        assert "votes on 13 of 20 judged items" in printed
        asked = world.requests()
        assert ending(["trial", "run", str(world.file)]) == 0
        assert world.requests() == asked  # a run of a finished trial asks nobody
        page = browser.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto((tmp_path / "trial" / "report" / "index.html").as_uri())
        assert page.locator("h1").text_content() == "trial: a trial of captioners"
        assert page.locator("svg").count() == 1
        assert "Complete." in (page.locator("header").text_content() or "")
        assert not problems
