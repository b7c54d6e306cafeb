// A round whose answers are buttons, described by its template:
// .task[data-round][data-action]   the name of the round, and where answers are sent: POST /api/<action>
// [data-show="caption"]            shows a field of the item as text ("captions.0" for the first of several)
// button[data-answer='{...}']      sends this answer; [data-inputs] adds what is typed into the inputs
// [data-key="R"]                   the key that presses a button or moves to an input
import { Round, onKeys } from "./round.js";

const task = document.querySelector(".task");
const inputs = [...task.querySelectorAll("input[name]")];
const field = (item, path) => path.split(".").reduce((value, name) => value[name], item);

const round = new Round(task.dataset.round, (item) => {
  for (const part of task.querySelectorAll("[data-show]")) part.textContent = field(item, part.dataset.show);
  for (const input of inputs) {
    input.value = "";
    input.blur();
  }
});
const actions = { U: () => round.undo() };

for (const button of task.querySelectorAll("[data-answer]")) {
  const send = () => {
    const typed = "inputs" in button.dataset ? Object.fromEntries(inputs.map((input) => [input.name, input.value])) : {};
    round.submit(task.dataset.action, { ...JSON.parse(button.dataset.answer), ...typed });
  };
  button.addEventListener("click", send);
  actions[button.dataset.key] = send;
}

for (const input of inputs) {
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.repeat) task.querySelector("[data-inputs]").click();
    if (event.key === "Escape") input.blur();
  });
  actions[input.dataset.key] = (event) => {
    event.preventDefault(); // the letter itself is not typed
    input.focus();
  };
}

onKeys(actions);
round.start();
