// Every round is a loop: show an item, send what somebody decided about it, show the next.
import { $, ask, pressed, say } from "./common.js";

// A key a submission: the server takes the same key only once, so a submission can safely be sent again.
const newKey = () => crypto.getRandomValues(new Uint32Array(4)).join("-");

function standing({ done, left, minutes, together }) {
  const all = together ? `; all together ${together.done} of ${together.done + together.left}` : "";
  if (!left) return `${done} done${all}`;
  const time = minutes === null || minutes === undefined ? "" : minutes < 1 ? ", less than a minute" : `, about ${Math.round(minutes)} min left`;
  return `${done} of about ${done + left} for you${time}${all}`;
}

export class Round {
  item = null;
  #key = newKey();
  #attempt = null;
  #busy = false;

  // `present(next)` puts an item into the page; the image and the counts are shown already.
  constructor(name, present) {
    this.name = name;
    this.source = `/api/next/${name}`;
    this.present = present;
  }

  start() {
    $("undo")?.addEventListener("click", () => this.undo());
    this.load().catch((error) => say(error.message, true));
  }

  async load() {
    await this.show(await ask("GET", this.source));
  }

  async show(next) {
    this.item = next.item;
    const empty = next.item === null;
    document.querySelector(".task").hidden = empty;
    $("finished").hidden = !empty;
    $(empty ? "finished-count" : "count").textContent = standing(next);
    if (empty) return;
    Object.assign($("bar"), { max: Math.max(next.done + next.left, 1), value: next.done });
    for (const image of [$("image"), $("zoomed")]) image.src = `/image/${next.image}`;
    this.#key = newKey();
    this.#attempt = null;
    await this.present(next);
  }

  // One thing at a time; where others were faster, the next item is shown.
  async act(action) {
    if (this.#busy) return;
    this.#busy = true;
    try {
      return await action();
    } catch (error) {
      say(error.message, true);
      if (error.status === 409) await this.load().catch((again) => say(again.message, true));
    } finally {
      this.#busy = false;
    }
  }

  submit(path, decision) {
    return this.act(async () => {
      if (this.item === null) return;
      // another decision than the one that got no answer is another submission
      const attempt = JSON.stringify([path, decision]);
      if (this.#attempt !== null && this.#attempt !== attempt) this.#key = newKey();
      this.#attempt = attempt;
      const { next } = await ask("POST", path, { item: this.item, key: this.#key, ...decision });
      if (next === null) await this.load();
      else await this.show(next);
      return true;
    });
  }

  undo() {
    return this.act(async () => this.show(await ask("POST", `/api/undo/${this.name}`, { key: newKey() })));
  }
}

// `actions`: letters alone, or with Alt where people type
export function onKeys(actions, alt = false) {
  document.addEventListener("keydown", (event) => {
    for (const [letter, action] of Object.entries(actions)) if (pressed(event, letter, alt)) action(event);
  });
}
