// Describing images: live hints, drafts kept on the server, undo; and the practice round.
import { $, ask, say } from "./common.js";
import { Round, onKeys } from "./round.js";

const practice = document.querySelector(".task").dataset.practice === "yes";
const text = $("text");
const list = (texts) => texts.map((textContent) => Object.assign(document.createElement("li"), { textContent }));

class Practice extends Round {
  source = "/api/qualification";

  async show(next) {
    if (next.qualified || next.item === null) location.href = "/";
    else await super.show(next);
  }
}

const round = new (practice ? Practice : Round)("write", async (next) => {
  text.value = unsaved.find(next.item) ?? next.draft ?? "";
  $("saved").textContent = text.value ? "your draft" : "";
  if (practice) $("count").textContent = `${next.left} to go, ${next.good} good so far`;
  text.focus();
  await hint();
});

async function hint() {
  const asked = text.value;
  const { hints } = asked.trim() ? await ask("POST", "/api/check", { text: asked }) : { hints: [] };
  if (asked !== text.value) return; // an answer that comes late is about another text
  $("hints").replaceChildren(...list(hints.map((found) => found.text)));
  for (const rule of document.querySelectorAll("[data-rule]")) {
    rule.classList.toggle("broken", hints.some((found) => found.rule === Number(rule.dataset.rule)));
  }
}

// What the server has not heard of yet survives a reload in the tab itself.
const unsaved = {
  keep: () => practice || sessionStorage.setItem(`draft ${round.item}`, text.value),
  find: (of) => (practice ? null : sessionStorage.getItem(`draft ${of}`)),
  forget: (of) => sessionStorage.removeItem(`draft ${of}`),
};

let waiting = null;
async function keep() {
  waiting = null;
  const [of, written] = [round.item, text.value];
  try {
    await Promise.all([hint(), practice ? null : ask("PUT", "/api/draft", { item: of, text: written })]);
    if (practice || of !== round.item || written !== text.value) return;
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
  if (waiting === null || practice || round.item === null) return;
  const body = JSON.stringify({ item: round.item, text: text.value });
  fetch("/api/draft", { method: "PUT", headers: { "Content-Type": "application/json" }, body, keepalive: true });
});

async function decide(path, decision) {
  clearTimeout(waiting);
  waiting = null;
  const of = round.item;
  if (await round.submit(path, decision)) unsaved.forget(of);
}

function submit() {
  if (!text.value.trim()) say("Please write a sentence first.", true);
  else if (practice) round.act(practise);
  else decide("/api/write", { text: text.value });
}

async function practise() {
  const answer = await ask("POST", "/api/qualification", { item: round.item, text: text.value });
  $("feedback-title").textContent = answer.good ? "Well done" : "Nearly: please read this";
  $("feedback-list").replaceChildren(...list(answer.hints));
  $("feedback-example").textContent = `A good sentence: “${answer.example}”`;
  if (answer.standing.failed) $("feedback-example").textContent += " Not enough were good this time; please try the images again.";
  $("feedback").addEventListener("close", () => round.load().catch((error) => say(error.message, true)), { once: true });
  $("feedback").showModal();
}

function refuse() {
  if (confirm("Is it really impossible to describe this image?")) decide("/api/refuse", {});
}

$("submit").addEventListener("click", submit);
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "Enter" && !event.repeat) submit();
});
if (!practice) {
  $("refuse").addEventListener("click", refuse);
  onKeys({ U: () => round.undo(), X: refuse }, true);
}
round.start();
