// Shared by all pages: requests that survive a bad connection, messages, zoom, keys.
export const $ = (id) => document.getElementById(id);

export function notify(text, bad = false) {
  const toast = $("toast");
  toast.textContent = text;
  toast.className = bad ? "bad show" : "show";
  clearTimeout(notify.timer);
  notify.timer = setTimeout(() => (toast.className = ""), 5000);
}

export async function request(method, path, body) {
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
        const detail = typeof answer.detail === "string" ? answer.detail : "the request was not valid";
        throw Object.assign(new Error(detail), { status: response.status });
      }
      return answer;
    } catch (error) {
      if (error.status || attempt === 6) throw error;
      notify("The connection is slow; trying again. Nothing is lost.", true);
      await new Promise((resolve) => setTimeout(resolve, 500 * 2 ** attempt));
    }
  }
}

function isTyping(event) {
  return ["INPUT", "TEXTAREA", "SELECT"].includes(event.target.tagName);
}

// A letter alone is compared by its key, with Alt by its place: Alt changes what a key types on some keyboards.
export function pressed(event, letter, alt = false) {
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey !== alt || document.querySelector("dialog[open]")) return false;
  return alt ? event.code === `Key${letter}` : !isTyping(event) && event.key.toUpperCase() === letter;
}

function setUpZoom() {
  const zoom = $("zoom");
  if (!zoom) return;
  const open = () => zoom.showModal();
  $("image").addEventListener("click", open);
  $("image").addEventListener("keydown", (event) => event.key === "Enter" && open());
  zoom.addEventListener("click", () => zoom.close());
  document.addEventListener("keydown", (event) => {
    if (zoom.open && event.key.toUpperCase() === "Z") zoom.close();
    else if (pressed(event, "Z")) open();
  });
}

function setUpKeys() {
  const keys = $("keys");
  if (!keys) return;
  $("keys-button").addEventListener("click", () => keys.showModal());
  document.addEventListener("keydown", (event) => {
    if (pressed(event, "?")) keys.showModal();
  });
}

setUpZoom();
setUpKeys();
