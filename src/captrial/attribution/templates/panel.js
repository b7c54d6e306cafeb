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
  const details = element("div", { "aria-live": "polite" });
  const caption = element("p", { class: "caption" });
  const buttons = data.words.map((word, number) => {
    const button = element("button", { class: "word", type: "button", "aria-pressed": "false" }, word.text);
    if (word.verdict) {
      const [style, meaning] = VERDICTS[word.verdict];
      button.classList.add(style);
      const wrong = word.wrong == null ? "" : ` (by eye, wrong in ${Math.round(100 * word.wrong)}% of such cases)`;
      button.title = `${word.verdict}: ${meaning}${wrong}`;
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
    boxes.replaceChildren(...word.top.flatMap(({ region }, rank) => drawBox(data, data.regions[region], rank)));
    details.replaceChildren(element("h3", {}, `Regions behind “${word.text}”`), listOfRegions(data, word), ...prior(word), ...completeness(word));
  }

  const side = element("div", { class: "side" }, details, ...groundingBars(data));
  const heading = [data.captioner, data.method.replaceAll("_", " ")].filter(Boolean).join(" · ");
  const panel = element(
    "section", { class: "panel" }, element("h2", {}, heading), caption,
    element("div", { class: "columns" }, stage, side), legend(data),
    ...data.notes.map((note) => element("p", { class: "soft small" }, note)),
  );
  if (buttons.length) show(Math.max(0, data.words.findIndex((word) => word.verdict)));  // the first noun
  return panel;
}

function drawBox(data, region, rank) {
  const [x1, y1, x2, y2] = region.box;
  const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  const places = { x: x1, y: y1, width: x2 - x1, height: y2 - y1 };
  for (const [key, value] of Object.entries(places)) rect.setAttribute(key, value);
  if (rank > 0) return [rect];
  rect.classList.add("first");
  const label = document.createElementNS("http://www.w3.org/2000/svg", "text");
  const size = Math.max(data.width, data.height) / 28;
  label.setAttribute("x", x1 + size / 3);
  label.setAttribute("y", Math.min(y1 + size * 1.1, data.height - size / 3));
  label.setAttribute("font-size", size);
  label.textContent = region.label;
  return [rect, label];
}

function listOfRegions(data, word) {
  if (!word.top.length) return element("p", { class: "soft" }, "the image has no labelled region");
  return element("ol", {}, ...word.top.map(({ region, share }) =>
    element("li", {}, `${data.regions[region].label || "region"} `, element("span", { class: "soft" }, `${Math.round(100 * share)}% of the regions' weight`))));
}

function prior(word) {
  if (word.prior == null) return [];
  const share = `${Math.round(100 * word.prior)}% of the word’s probability stays without the image`;
  return [element("p", { class: "soft small" }, word.prior >= NEEDED_NO_IMAGE ? `this word needed no image: ${share}` : share)];
}

function completeness(word) {
  if (word.error === null) return [];
  return [element("p", { class: "soft small" }, `completeness error: ${(100 * word.error).toFixed(2)}% of the change of the word’s score`)];
}

function groundingBars(data) {
  const heading = element("h3", {}, "GroundingScore");
  if (data.problem) return [heading, element("p", { class: "soft" }, data.problem)];
  const bars = element("div", { class: "bars" });
  for (const { delta, score } of data.grounding) {
    const filled = element("i");
    filled.style.width = `${Math.max(0, 100 * score)}%`;
    bars.append(element("span", {}, `δ = ${delta}`), element("span", { class: "bar" }, filled), element("span", {}, (100 * score).toFixed(1)));
  }
  return [heading, bars, element("p", { class: "soft small" }, "similarity of each noun to the top regions of the last δ words, mean over nouns, at most 100")];
}

function legend(data) {
  const present = new Set(data.words.map((word) => word.verdict).filter(Boolean));
  const marks = Object.fromEntries(data.words.filter((word) => word.verdict).map((word) => [word.verdict, word.mark]));
  return element("ul", { class: "legend" }, ...Object.entries(VERDICTS).filter(([name]) => present.has(name)).map(([name, [style, meaning]]) =>
    element("li", {}, element("span", { class: style }, `${marks[name]} ${name}`), `: ${meaning}`)));
}
