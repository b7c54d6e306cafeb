import { $, ask, finish, newKey, pressed, say, showPicture } from "./common.js";

let item = null;
let key = newKey();
let busy = false;

function show(next) {
  item = next.item;
  if (finish(next)) return;
  key = newKey();
  showPicture(next.picture);
  $("sentence").textContent = next.sentence;
  $("reason").value = "";
  $("reason").blur();
}

async function vote(right) {
  if (busy || item === null) return;
  busy = true;
  try {
    show((await ask("POST", "/api/vote", { item, right, reason: right ? "" : $("reason").value, key })).next);
  } catch (error) {
    say(error.message, true);
    if (error.status === 409) await load();
  } finally {
    busy = false;
  }
}

async function undo() {
  if (busy) return;
  busy = true;
  try {
    show(await ask("POST", "/api/undo/inspect", {}));
  } catch (error) {
    say(error.message, true);
  } finally {
    busy = false;
  }
}

async function load() {
  show(await ask("GET", "/api/next/inspect"));
}

$("right").addEventListener("click", () => vote(true));
$("wrong").addEventListener("click", () => vote(false));
$("undo").addEventListener("click", undo);
document.addEventListener("keydown", (event) => {
  if (pressed(event, "R")) vote(true);
  if (pressed(event, "W")) vote(false);
  if (pressed(event, "U")) undo();
  if (pressed(event, "E")) {
    event.preventDefault();
    $("reason").focus();
  }
});
$("reason").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.repeat) vote(false);
  if (event.key === "Escape") $("reason").blur();
});
load().catch((error) => say(error.message, true));
