"use strict";
// One explanation: the caption's words as buttons, the image with the map of the word pointed at.
// Used by the page of `captrial explain` and by the studio; `data` is the result of captrial.attribution.page.panel.

const VERDICTS = {
  "grounded": ["grounded", "the top region of the word is of this class"],
  "grounded early": ["early", "only the top region of an earlier word is of this class"],
  "not checkable": ["unknown", "no region label could confirm it"],
  "there, but not looked at": ["early", "it was found in the image, but no top region up to the word is of this class"],
  "not in the image": ["wrong", "nothing of this name was found in the image"],
};

const NEEDED_NO_IMAGE = 0.8;  // that of captrial.attribution.language_prior

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function explanationPanel(data) {
  const stage = element("div", { class: "stage" }, element("img", { src: data.image, alt: "the image that was captioned" }));
  const map = element("img", { class: "map", alt: "" });
  const boxes = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  boxes.setAttribute("viewBox", `0 0 ${data.width} ${data.height}`);
  boxes.setAttribute("aria-hidden", "true");
  stage.append(map, boxes);
  const about = element("div", { "aria-live": "polite" });
  const caption = element("p", { class: "caption" });
  const buttons = data.words.map((word, number) => {
    const button = element("button", { class: "word", type: "button", "aria-pressed": "false" }, word.text);
    if (word.verdict) {
      const [style, meaning] = VERDICTS[word.verdict];
      button.classList.add(style);
      button.title = `${word.verdict}: ${meaning}${errorRate(word)}`;
      button.append(element("span", { class: "mark", "aria-label": word.verdict }, word.mark));
    }
    if (word.prior != null && word.prior >= NEEDED_NO_IMAGE) button.classList.add("unneeded");
    for (const event of ["mouseenter", "focus", "click"]) button.addEventListener(event, () => show(number));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) buttons[(number + step + buttons.length) % buttons.length].focus();
    });
    caption.append(button, " ");
    return button;
  });

  function show(number) {
    const word = data.words[number];
    buttons.forEach((button, other) => button.setAttribute("aria-pressed", String(other === number)));
    map.src = word.map;
    map.alt = `map of the word ${word.text}`;
    boxes.replaceChildren(...drawBoxes(data, word));
    about.replaceChildren(
      element("h3", {}, `“${word.text}”`),
      ...verdict(data, word), ...alternatives(word), ...prior(word), element("h3", {}, "Regions behind it"), listOfRegions(data, word),
    );
    error.replaceChildren(...numericalError(word));
  }

  const error = element("div");
  const details = element(
    "details", {}, element("summary", {}, "Details"), error, ...groundingScore(data),
    ...data.notes.map((note) => element("p", { class: "soft small" }, note)),
  );
  const side = element("div", { class: "side" }, about);
  const heading = [data.captioner, data.method.replaceAll("_", " ")].filter(Boolean).join(" · ");
  const panel = element(
    "section", { class: "panel" }, element("h2", {}, heading), caption,
    ...data.warnings.map((warning) => element("p", { class: "warning" }, `Warning: ${warning}.`)),
    element("div", { class: "columns" }, stage, side), legend(data), details,
  );
  if (buttons.length) show(Math.max(0, data.words.findIndex((word) => word.verdict)));  // the first noun
  return panel;
}

function errorRate(word) {
  return word.wrong == null ? "" : `; on test photographs of Flickr8k ${Math.round(100 * word.wrong)}% of such verdicts were wrong (${word.basis})`;
}

const NOT_LOOKED_AT = "there, but not looked at";

function verdict(data, word) {
  if (!data.words.some((other) => other.verdict)) return [];
  if (!word.verdict) return [element("p", { class: "verdict soft" }, "no noun, so no verdict")];
  const [style, meaning] = VERDICTS[word.verdict];
  const where = word.found == null ? "no region is of it, the image as a whole suggests it" : `dashed: ${named(data.regions[word.found])}`;
  const place = word.verdict === NOT_LOOKED_AT ? ` (${where})` : "";
  return [element("p", { class: "verdict" }, element("strong", { class: style }, `${word.mark} ${word.verdict}`), `: ${word.reason || meaning}${place}${errorRate(word)}`)];
}

function named({ label, score }) {
  return `${label || "region"}${score < 1 ? `, detector's score ${score.toFixed(2)}` : ""}`;
}

// The regions of a word, the first one on top, and the one that was not looked at. Labels do not cover each other.
function drawBoxes(data, word) {
  const missed = word.verdict === NOT_LOOKED_AT ? word.found : null;
  const shown = word.top.map(({ region }, rank) => ({ region, style: region === missed ? "missed" : rank ? "" : "first", text: `${rank + 1} ${data.regions[region].label}` }));
  if (missed != null && !shown.some(({ region }) => region === missed)) shown.push({ region: missed, style: "missed", text: data.regions[missed].label });
  const size = Math.max(data.width, data.height) / 28;
  const labels = [], taken = [];
  const rects = shown.map(({ region, style, text }) => {
    const [x1, y1, x2, y2] = data.regions[region].box;
    const width = size * (0.5 + 0.62 * text.length);
    const left = Math.max(0, Math.min(x1 + size / 3, data.width - width));
    let top = Math.min(y1 + size * 1.1, data.height - size / 3);
    const covered = () => taken.find((other) => Math.abs(other.top - top) < size * 1.1 && left < other.left + other.width && other.left < left + width);
    while (covered()) top = covered().top + size * 1.15;
    if (top > data.height) top = Math.min(...taken.map((other) => other.top)) - size * 1.15;
    taken.push({ left, top, width });
    labels.push(drawn("text", { x: left, y: top, "font-size": size }, text.trim()));
    return drawn("rect", { x: x1, y: y1, width: x2 - x1, height: y2 - y1, class: style });
  });
  return [...rects.reverse(), ...labels];
}

function drawn(name, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

function percent(share) {
  return share > 0 && share < 0.01 ? "< 1%" : `${Math.round(100 * share)}%`;
}

// What else the captioner could have said in this place.
function alternatives(word) {
  if (!word.alternatives.length) return [];
  const bars = element("div", { class: "bars" });
  for (const { text, probability } of word.alternatives) {
    const filled = element("i");
    filled.style.width = `${100 * probability}%`;
    const said = text === word.text ? { class: "said" } : {};
    bars.append(element("span", said, text), element("span", { class: "bar" }, filled), element("span", {}, percent(probability)));
  }
  return [element("h3", {}, "The captioner could have said"), bars];
}

function listOfRegions(data, word) {
  if (!word.top.length) return element("p", { class: "soft" }, "the image has no labelled region");
  return element("ol", {}, ...word.top.map(({ region, share }) =>
    element("li", {}, named(data.regions[region]), element("span", { class: "soft" }, ` · ${percent(share)} of the weight`))));
}

function prior(word) {
  if (word.prior == null) return [];
  const share = `${Math.round(100 * word.prior)}% of the word’s probability stays without the image`;
  return [element("p", { class: "soft small" }, word.prior >= NEEDED_NO_IMAGE ? `this word needed no image: ${share}` : share)];
}

function numericalError(word) {
  if (word.error === null) return [];
  return [element("p", { class: "soft small" }, `Numerical error of “${word.text}”: ${(100 * word.error).toFixed(2)}%`)];
}

function groundingScore(data) {
  if (data.problem) return [element("p", { class: "soft small" }, `No GroundingScore: ${data.problem}.`)];
  const scores = data.grounding.map(({ delta, score }) => `${(100 * score).toFixed(1)} (δ = ${delta})`).join(", ");
  return [element("p", { class: "soft small" }, `GroundingScore ${scores}: similarity of each noun to the top regions of the last δ words, mean over nouns, at most 100.`)];
}

function legend(data) {
  const present = new Set(data.words.map((word) => word.verdict).filter(Boolean));
  const marks = Object.fromEntries(data.words.filter((word) => word.verdict).map((word) => [word.verdict, word.mark]));
  return element("ul", { class: "legend" }, ...Object.entries(VERDICTS).filter(([name]) => present.has(name)).map(([name, [style, meaning]]) =>
    element("li", {}, element("span", { class: style }, `${marks[name]} ${name}`), `: ${meaning}`)));
}
