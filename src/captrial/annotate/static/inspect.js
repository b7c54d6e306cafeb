import { $, ask, finish, newKey, say, showPicture, typing } from "./common.js";

let item = null;
let key = newKey();
let busy = false;

function show(next) {
  if (finish(next)) return;
  item = next.item;
  key = newKey();
  showPicture(next.picture);
  $("sentence").textContent = next.sentence;
  $("reason").value = "";
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

async function load() {
  show(await ask("GET", "/api/next/inspect"));
}

$("right").addEventListener("click", () => vote(true));
$("wrong").addEventListener("click", () => vote(false));
document.addEventListener("keydown", (event) => {
  if (typing(event)) return;
  if (event.key.toLowerCase() === "r") vote(true);
  if (event.key.toLowerCase() === "w") vote(false);
});
load().catch((error) => say(error.message, true));
