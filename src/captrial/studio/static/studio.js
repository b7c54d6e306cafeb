// An image goes to the server, its job is followed, and every captioner's panel is shown as soon as it is ready.
import { $, ask } from "./common.js";

const PAUSE = 250; // milliseconds between two looks at a job
let image = null; // what was dropped
let current = null; // the number of the job that is followed

function complain(sentence) {
  $("problem").textContent = sentence;
  $("problem").hidden = !sentence;
}

function take(file) {
  if (!file) return;
  const megabytes = Number($("choices").dataset.megabytes);
  $("panels").replaceChildren();
  $("preview").hidden = true;
  $("chosen").textContent = file.name || "image";
  if (file.size > megabytes * 2 ** 20) {
    image = null;
    stop();
    complain(`${file.name || "This image"} has ${Math.ceil(file.size / 2 ** 20)} MB; at most ${megabytes} MB are taken. Please shrink it.`);
    return;
  }
  image = file;
  look();
}

async function look() {
  if (!image) return;
  const models = [...new Set([$("first").value, $("second").value].filter(Boolean))];
  const asked = new URLSearchParams([...models.map((name) => ["model", name]), ["method", $("method").value], ["file", image.name || "image"]]);
  const room = document.createElement("div");
  room.className = models.length > 1 ? "pair" : "";
  $("panels").replaceChildren(room);
  await follow(() => fetch(`/api/look?${asked}`, { method: "POST", body: image }), (part) => {
    if (part.preview) {
      Object.assign($("preview"), { src: part.preview, hidden: false });
    } else {
      room.append(part.words ? explanationPanel(part) : unexplained(part));
    }
  });
}

// What a captioner said where its words could not be explained.
function unexplained(part) {
  return element("section", { class: "panel" }, element("h2", {}, part.captioner),
    element("p", { class: "caption" }, part.caption), element("p", { class: "soft" }, part.problem));
}

function stop() {
  if (typeof current === "number") ask("DELETE", `/api/jobs/${current}`).catch(() => {});
  current = null;
  $("work").hidden = true;
}

// Begin a job, show how far it is, and pass on its parts; one that was begun before is given up.
async function follow(begin, show) {
  stop();
  complain("");
  $("work").hidden = false;
  $("bar").removeAttribute("value");
  $("step").textContent = "sending";
  let mine = (current = Symbol("not known yet"));
  try {
    const response = await begin();
    let job = await response.json();
    if (!response.ok) throw new Error(job.detail);
    const number = job.number;
    if (current !== mine) return void ask("DELETE", `/api/jobs/${number}`);
    mine = current = number;
    for (let seen = 0; ; await new Promise((resolve) => setTimeout(resolve, PAUSE)), job = await ask("GET", `/api/jobs/${number}?seen=${seen}`)) {
      if (current !== mine) return;
      job.parts.forEach(show);
      seen += job.parts.length;
      Object.assign($("bar"), { max: job.total, value: job.done });
      $("step").textContent = `${job.step} …`;
      if (job.error) throw new Error(job.error);
      if (job.state === "done" || job.state === "cancelled") break;
    }
  } catch (error) {
    if (current === mine) complain(error.message);
  }
  if (current !== mine) return;
  current = null;
  $("work").hidden = true;
}

// A word that both captioners say is shown in both panels: the same place in the sentence of each, if said twice.
function together(event) {
  const word = event.isTrusted && event.target.closest?.(".pair .word");
  if (!word) return;
  const mine = word.closest(".panel");
  const named = (panel) => [...panel.querySelectorAll(".word")].filter((other) => other.firstChild.textContent === word.firstChild.textContent);
  const turn = named(mine).indexOf(word);
  for (const panel of mine.parentElement.querySelectorAll(".panel")) {
    if (panel !== mine) (named(panel)[turn] ?? named(panel)[0])?.dispatchEvent(new Event("mouseenter"));
  }
}

function explainMethod() {
  $("meaning").textContent = $("method").selectedOptions[0].title;
}

$("file").addEventListener("change", () => take($("file").files[0]));
for (const name of ["dragenter", "dragover", "dragleave", "drop"]) {
  document.addEventListener(name, (event) => {
    event.preventDefault(); // an image that misses the field must not replace the page
    $("drop").classList.toggle("over", name === "dragenter" || name === "dragover");
    if (name === "drop") take(event.dataTransfer.files[0]);
  });
}
document.addEventListener("paste", (event) => take(event.clipboardData.files[0]));
for (const name of ["mouseover", "focusin", "click"]) $("panels").addEventListener(name, together);
for (const id of ["first", "second", "method"]) $(id).addEventListener("change", look);
$("method").addEventListener("change", explainMethod);
$("choices").addEventListener("submit", (event) => event.preventDefault());
$("competitions")?.addEventListener("click", (event) => {
  const number = event.target.dataset.competition;
  if (number !== undefined) follow(() => fetch(`/api/competition/${number}`, { method: "POST" }), (part) => location.assign(part.address));
});
explainMethod();
