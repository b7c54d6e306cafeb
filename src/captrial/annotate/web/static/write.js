// Describing images: hints while typing, drafts saved on the server, undo; and the practice round.
import { $, request, notify } from "./common.js";
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

let confirmed = null; // the text that was hinted at and submitted once: submitting it again sends it

// Shows what the rules say of the text; returns whether they say anything.
async function hint() {
  const asked = text.value;
  const { hints } = asked.trim() ? await request("POST", "/api/check", { text: asked }) : { hints: [] };
  if (asked !== text.value) return false; // a late response is about another text
  $("hints").replaceChildren(...list(hints.map((found) => found.text)));
  for (const rule of document.querySelectorAll("[data-rule]")) {
    rule.classList.toggle("broken", hints.some((found) => found.rule === Number(rule.dataset.rule)));
  }
  if (asked !== confirmed) $("submit").firstChild.textContent = "Submit ";
  return hints.length > 0;
}

// Text that is not saved on the server yet is kept in the tab and survives a reload.
const unsaved = {
  save: () => practice || sessionStorage.setItem(`draft ${round.item}`, text.value),
  find: (item) => (practice ? null : sessionStorage.getItem(`draft ${item}`)),
  forget: (item) => sessionStorage.removeItem(`draft ${item}`),
};

let waiting = null;
async function saveDraft() {
  waiting = null;
  const [item, written] = [round.item, text.value];
  try {
    await Promise.all([hint(), practice ? null : request("PUT", "/api/draft", { item, text: written })]);
    if (practice || item !== round.item || written !== text.value) return;
    unsaved.forget(item);
    $("saved").textContent = "draft saved";
  } catch (error) {
    notify(error.message, true);
  }
}

text.addEventListener("input", () => {
  $("saved").textContent = "";
  unsaved.save();
  clearTimeout(waiting);
  waiting = setTimeout(saveDraft, 600);
});

// Closing the tab before that loses nothing either: `keepalive` requests outlive their page.
addEventListener("pagehide", () => {
  if (waiting === null || practice || round.item === null) return;
  const body = JSON.stringify({ item: round.item, text: text.value });
  fetch("/api/draft", { method: "PUT", headers: { "Content-Type": "application/json" }, body, keepalive: true });
});

async function send(action, answer) {
  clearTimeout(waiting);
  waiting = null;
  const { item } = round;
  if (await round.submit(action, answer)) unsaved.forget(item);
}

async function submit() {
  if (!text.value.trim()) notify("Please write a caption first.", true);
  else if (practice) round.act(practise);
  else if (text.value !== confirmed && (await hint().catch(() => false))) {
    confirmed = text.value;
    $("submit").firstChild.textContent = "Submit all the same ";
    notify("Please read the hints. Submit again to send it as it is.");
  } else send("write", { text: text.value });
}

async function practise() {
  const answer = await request("POST", "/api/qualification", { item: round.item, text: text.value });
  $("feedback-title").textContent = answer.good ? "Well done" : "Almost: please read this";
  $("feedback-list").replaceChildren(...list(answer.hints));
  $("feedback-example").textContent = `A good caption: “${answer.example}”`;
  if (answer.progress.failed) $("feedback-example").textContent += " Not enough captions were good this time. Please try the images again.";
  $("feedback").addEventListener("close", () => round.load().catch((error) => notify(error.message, true)), { once: true });
  $("feedback").showModal();
}

function refuse() {
  if (confirm("Is it really impossible to describe this image?")) send("refuse", {});
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
