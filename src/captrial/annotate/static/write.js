// Describing pictures: live hints, drafts kept on the server, undo; and the practice round.
import { $, ask, finish, newKey, pressed, say, showPicture } from "./common.js";

const practice = document.querySelector(".task").dataset.practice === "yes";
const text = $("text");
let item = null;
let key = newKey();
let busy = false;

async function show(next) {
  if (practice && (next.qualified || next.item === null)) {
    location.href = "/";
    return;
  }
  item = next.item;
  if (finish(next)) return;
  key = newKey();
  showPicture(next.picture);
  text.value = unsaved.find(item) ?? next.draft ?? "";
  $("saved").textContent = text.value ? "your draft" : "";
  if (practice) $("count").textContent = `${next.left} to go, ${next.good} good so far`;
  text.focus();
  await hint();
}

async function hint() {
  const rules = document.querySelectorAll("[data-rule]");
  if (!text.value.trim()) {
    $("hints").replaceChildren();
    rules.forEach((rule) => rule.classList.remove("broken"));
    return;
  }
  const { hints } = await ask("POST", "/api/check", { text: text.value });
  $("hints").replaceChildren(...hints.map((found) => Object.assign(document.createElement("li"), { textContent: found.text })));
  rules.forEach((rule) => rule.classList.toggle("broken", hints.some((found) => found.rule === Number(rule.dataset.rule))));
}

// What the server has not heard of yet survives a reload in the tab itself.
const unsaved = {
  keep: () => practice || sessionStorage.setItem(`draft ${item}`, text.value),
  find: (of) => (practice ? null : sessionStorage.getItem(`draft ${of}`)),
  forget: (of) => sessionStorage.removeItem(`draft ${of}`),
};

let waiting = null;
async function keep() {
  waiting = null;
  const [of, written] = [item, text.value];
  try {
    await Promise.all([hint(), practice ? null : ask("PUT", "/api/draft", { item: of, text: written })]);
    if (practice || of !== item || written !== text.value) return;
    unsaved.forget(of);
    $("saved").textContent = "draft saved";
  } catch (error) {
    say(error.message, true);
  }
}

text.addEventListener("input", () => {
  $("saved").textContent = "";
  unsaved.keep();
  clearTimeout(waiting);
  waiting = setTimeout(keep, 600);
});

// Closing the tab within that moment loses nothing either: `keepalive` requests outlive their page.
addEventListener("pagehide", () => {
  if (waiting === null || practice || item === null) return;
  const body = JSON.stringify({ item, text: text.value });
  fetch("/api/draft", { method: "PUT", headers: { "Content-Type": "application/json" }, body, keepalive: true });
});

async function act(action) {
  if (busy) return;
  busy = true;
  clearTimeout(waiting);
  waiting = null;
  try {
    await action();
  } catch (error) {
    say(error.message, true);
    if (error.status === 409) await load();
  } finally {
    busy = false;
  }
}

const submit = () =>
  act(async () => {
    if (!text.value.trim()) return say("Please write a sentence first.", true);
    if (practice) return practise();
    const { next } = await ask("POST", "/api/write", { item, text: text.value, key });
    unsaved.forget(item);
    await show(next);
  });

async function practise() {
  const answer = await ask("POST", "/api/qualification", { item, text: text.value });
  $("feedback-title").textContent = answer.good ? "Well done" : "Nearly: please read this";
  $("feedback-list").replaceChildren(...answer.hints.map((hint) => Object.assign(document.createElement("li"), { textContent: hint })));
  $("feedback-example").textContent = `A good sentence: “${answer.example}”`;
  if (answer.standing.failed) $("feedback-example").textContent += " Not enough were good this time; please try the pictures again.";
  $("feedback").addEventListener("close", () => load().catch((error) => say(error.message, true)), { once: true });
  $("feedback").showModal();
}

const undo = () => act(async () => show(await ask("POST", "/api/undo/write", {})));

const refuse = () =>
  act(async () => {
    if (!confirm("Is it really impossible to describe this picture?")) return;
    const { next } = await ask("POST", "/api/refuse", { item, key });
    unsaved.forget(item);
    await show(next);
  });

async function load() {
  await show(await ask("GET", practice ? "/api/qualification" : "/api/next/write"));
}

$("submit").addEventListener("click", submit);
if (!practice) {
  $("undo").addEventListener("click", undo);
  $("refuse").addEventListener("click", refuse);
}
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "Enter" && !event.repeat) submit();
  if (!practice && pressed(event, "U", true)) undo();
  if (!practice && pressed(event, "X", true)) refuse();
});
load().catch((error) => say(error.message, true));
