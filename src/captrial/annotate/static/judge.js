import { $, ask, finish, newKey, pressed, say, showPicture } from "./common.js";

let item = null;
let key = newKey();
let busy = false;

function show(next) {
  item = next.item;
  if (finish(next)) return;
  key = newKey();
  showPicture(next.picture);
  $("left-text").textContent = next.captions[0];
  $("right-text").textContent = next.captions[1];
}

async function choose(winner) {
  if (busy || item === null) return;
  busy = true;
  try {
    show((await ask("POST", "/api/judge", { item, winner, key })).next);
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
    show(await ask("POST", "/api/undo/judge", {}));
  } catch (error) {
    say(error.message, true);
  } finally {
    busy = false;
  }
}

async function load() {
  show(await ask("GET", "/api/next/judge"));
}

for (const winner of ["left", "right", "tie"]) $(winner).addEventListener("click", () => choose(winner));
$("undo").addEventListener("click", undo);
document.addEventListener("keydown", (event) => {
  for (const [key, winner] of [["1", "left"], ["2", "right"], ["0", "tie"]]) if (pressed(event, key)) choose(winner);
  if (pressed(event, "U")) undo();
});
load().catch((error) => say(error.message, true));
