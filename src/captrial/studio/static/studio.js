// Sends an image to the server, follows the task, and shows the panel of each captioner as soon as it is ready.
import { $, request } from "./common.js";

const INTERVAL = 250; // milliseconds between two requests for the status of a task
let image = null; // the file that was dropped or chosen
let current = null; // the number of the task that is followed

function showProblem(message) {
  $("problem").textContent = message;
  $("problem").hidden = !message;
}

function chooseFile(file) {
  if (!file) return;
  const megabytes = Number($("choices").dataset.megabytes);
  $("panels").replaceChildren();
  $("preview").hidden = true;
  $("chosen").textContent = file.name || "image";
  if (file.size > megabytes * 2 ** 20) {
    image = null;
    stop();
    showProblem(`${file.name || "This image"} has ${Math.ceil(file.size / 2 ** 20)} MB; at most ${megabytes} MB are allowed. Please choose a smaller file.`);
    return;
  }
  image = file;
  explain();
}

async function explain() {
  if (!image) return;
  const models = [...new Set([$("first").value, $("second").value].filter(Boolean))];
  const query = new URLSearchParams([...models.map((name) => ["model", name]), ["method", $("method").value], ["file", image.name || "image"]]);
  const panels = document.createElement("div");
  panels.className = models.length > 1 ? "pair" : "";
  $("panels").replaceChildren(panels);
  await follow(() => fetch(`/api/explain?${query}`, { method: "POST", body: image }), (result) => {
    if (result.preview) {
      Object.assign($("preview"), { src: result.preview, hidden: false });
    } else {
      panels.append(result.words ? explanationPanel(result) : captionPanel(result));
    }
  });
}

// The caption alone, where its words could not be explained.
function captionPanel(result) {
  return element("section", { class: "panel" }, element("h2", {}, result.captioner),
    element("p", { class: "caption" }, result.caption), element("p", { class: "soft" }, result.problem));
}

function stop() {
  if (typeof current === "number") request("DELETE", `/api/tasks/${current}`).catch(() => {});
  current = null;
  $("work").hidden = true;
}

// Starts a task, shows its progress and passes on its results; a task that was started before is cancelled.
async function follow(start, show) {
  stop();
  showProblem("");
  $("work").hidden = false;
  $("bar").removeAttribute("value");
  $("step").textContent = "sending";
  let mine = (current = Symbol("no number yet"));
  try {
    const response = await start();
    let task = await response.json();
    if (!response.ok) throw new Error(task.detail);
    const number = task.number;
    if (current !== mine) return void request("DELETE", `/api/tasks/${number}`);
    mine = current = number;
    for (let seen = 0; ; await new Promise((resolve) => setTimeout(resolve, INTERVAL)), task = await request("GET", `/api/tasks/${number}?seen=${seen}`)) {
      if (current !== mine) return;
      task.results.forEach(show);
      seen += task.results.length;
      Object.assign($("bar"), { max: task.total, value: task.done });
      $("step").textContent = `${task.step} …`;
      if (task.error) throw new Error(task.error);
      if (task.state === "done" || task.state === "cancelled") break;
    }
  } catch (error) {
    if (current === mine) showProblem(error.message);
  }
  if (current !== mine) return;
  current = null;
  $("work").hidden = true;
}

// A word of both captions is shown in both panels; if it occurs several times, at the same occurrence.
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

function describeMethod() {
  $("description").textContent = $("method").selectedOptions[0].title;
}

$("file").addEventListener("change", () => chooseFile($("file").files[0]));
for (const name of ["dragenter", "dragover", "dragleave", "drop"]) {
  document.addEventListener(name, (event) => {
    event.preventDefault(); // an image that misses the field must not replace the page
    $("drop").classList.toggle("over", name === "dragenter" || name === "dragover");
    if (name === "drop") chooseFile(event.dataTransfer.files[0]);
  });
}
document.addEventListener("paste", (event) => chooseFile(event.clipboardData.files[0]));
for (const name of ["mouseover", "focusin", "click"]) $("panels").addEventListener(name, together);
for (const id of ["first", "second", "method"]) $(id).addEventListener("change", explain);
$("method").addEventListener("change", describeMethod);
$("choices").addEventListener("submit", (event) => event.preventDefault());
$("competitions")?.addEventListener("click", (event) => {
  const number = event.target.dataset.competition;
  if (number !== undefined) follow(() => fetch(`/api/competition/${number}`, { method: "POST" }), (result) => location.assign(result.address));
});
describeMethod();
