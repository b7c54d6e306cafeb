// The loop of every round: show an item, send the person's answer, show the next item.
import { $, request, pressed, notify } from "./common.js";

// Every submission has a key. The server stores the same key only once, so a submission can safely be sent again.
const newKey = () => crypto.getRandomValues(new Uint32Array(4)).join("-");

function progressText({ done, left, minutes, together }) {
  const all = together ? `; everybody together: ${together.done} of ${together.done + together.left}` : "";
  if (!left) return `${done} done${all}`;
  const time = minutes === null || minutes === undefined ? "" : minutes < 1 ? ", less than a minute" : `, about ${Math.round(minutes)} min left`;
  return `${done} of about ${done + left} for you${time}${all}`;
}

export class Round {
  item = null;
  #key = newKey();
  #attempt = null;
  #busy = false;

  // `present(next)` puts an item into the page; the image and the counts are shown by this class.
  constructor(name, present) {
    this.name = name;
    this.source = `/api/next/${name}`;
    this.present = present;
  }

  start() {
    $("image").addEventListener("error", () => {
      $("no-image").hidden = false; // instead of the browser's broken icon
      $("image").hidden = true;
    });
    keepImageVisible();
    $("undo")?.addEventListener("click", () => this.undo());
    this.load().catch((error) => notify(error.message, true));
  }

  async load() {
    await this.show(await request("GET", this.source));
  }

  async show(next) {
    this.item = next.item;
    const empty = next.item === null;
    document.querySelector(".task").hidden = empty;
    $("finished").hidden = !empty;
    $(empty ? "finished-count" : "count").textContent = progressText(next);
    if (empty) return;
    Object.assign($("bar"), { max: Math.max(next.done + next.left, 1), value: next.done });
    $("no-image").hidden = true;
    $("image").hidden = false;
    for (const image of [$("image"), $("zoomed")]) image.src = `/image/${next.image}`;
    this.#key = newKey();
    this.#attempt = null;
    await this.present(next);
  }

  // Runs one action at a time; where others have finished the item, the next one is shown.
  async act(action) {
    if (this.#busy) return;
    this.#busy = true;
    try {
      return await action();
    } catch (error) {
      notify(error.message, true);
      if (error.status === 409) await this.load().catch((again) => notify(again.message, true));
    } finally {
      this.#busy = false;
    }
  }

  submit(action, answer) {
    return this.act(async () => {
      if (this.item === null) return;
      // if the last attempt got no response, a different answer is a new submission
      const attempt = JSON.stringify([action, answer]);
      if (this.#attempt !== null && this.#attempt !== attempt) this.#key = newKey();
      this.#attempt = attempt;
      const { next } = await request("POST", `/api/${action}`, { item: this.item, key: this.#key, ...answer });
      if (next === null) await this.load();
      else await this.show(next);
      return true;
    });
  }

  undo() {
    return this.act(async () => this.show(await request("POST", `/api/undo/${this.name}`, { key: newKey() })));
  }
}

// `actions` are by letter; with `alt` on pages where people type text
export function onKeys(actions, alt = false) {
  document.addEventListener("keydown", (event) => {
    for (const [letter, action] of Object.entries(actions)) if (pressed(event, letter, alt)) action(event);
  });
}

// A phone's keyboard covers the lower half of the page: the image becomes as small as what is left needs.
function keepImageVisible() {
  const view = window.visualViewport;
  if (!view) return;
  const fit = () => document.documentElement.style.setProperty("--visible", `${view.height}px`);
  view.addEventListener("resize", fit);
  fit();
}
