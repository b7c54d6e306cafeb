// What every page shares: requests that survive a bad connection, messages, zoom, keys.
export const $ = (id) => document.getElementById(id);

export function say(text, bad = false) {
  const toast = $("toast");
  toast.textContent = text;
  toast.className = bad ? "bad show" : "show";
  clearTimeout(say.timer);
  say.timer = setTimeout(() => (toast.className = ""), 5000);
}

// A key a submission: the server takes the same key only once, so a submission can safely be sent again.
export const newKey = () => crypto.getRandomValues(new Uint32Array(4)).join("-");

export async function ask(method, path, body) {
  for (let attempt = 0; ; attempt++) {
    try {
      const options = { method, headers: {} };
      if (body !== undefined) {
        options.headers["Content-Type"] = "application/json";
        options.body = JSON.stringify(body);
      }
      const response = await fetch(path, options);
      if (response.status === 429 || response.status >= 500) throw new Error("busy");
      const answer = await response.json();
      if (!response.ok) {
        const detail = typeof answer.detail === "string" ? answer.detail : "this was not understood";
        throw Object.assign(new Error(detail), { status: response.status });
      }
      return answer;
    } catch (error) {
      if (error.status || attempt === 6) throw error;
      say("The connection is slow; trying again. Nothing is lost.", true);
      await new Promise((resolve) => setTimeout(resolve, 500 * 2 ** attempt));
    }
  }
}

export function typing(event) {
  return ["INPUT", "TEXTAREA", "SELECT"].includes(event.target.tagName);
}

export function showPicture(number) {
  for (const image of [$("picture"), $("zoomed")]) image.src = `/picture/${number}`;
}

function setUpZoom() {
  const zoom = $("zoom");
  if (!zoom) return;
  const open = () => zoom.showModal();
  $("picture").addEventListener("click", open);
  $("picture").addEventListener("keydown", (event) => event.key === "Enter" && open());
  zoom.addEventListener("click", () => zoom.close());
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() === "z" && !typing(event) && !event.ctrlKey && !event.altKey) zoom.open ? zoom.close() : open();
  });
}

function setUpKeys() {
  const keys = $("keys");
  if (!keys) return;
  $("keys-button").addEventListener("click", () => keys.showModal());
  document.addEventListener("keydown", (event) => {
    if (event.key === "?" && !typing(event)) keys.showModal();
  });
}

export function finish(done) {
  const empty = done.item === null;
  document.querySelector(".task").hidden = empty;
  $("finished").hidden = !empty;
  const count = $("count");
  if (count) count.textContent = done.done === 1 ? "1 done" : `${done.done} done`;
  return empty;
}

setUpZoom();
setUpKeys();
