"use strict";
(() => {
  const data = JSON.parse(document.getElementById("gallery-data").textContent);
  const find = (id) => document.getElementById(id);
  const [pairChoice, metricChoice, winnerChoice, search] = ["pair", "metric", "winner", "search"].map(find);
  const cards = find("cards"), count = find("count"), more = find("more");
  const STEP = 24;
  let rows = [], shown = 0;

  const element = (tag, className, text) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const option = (value, text) => { const made = element("option", "", text); made.value = value; return made; };
  const name = (model) => data.models[model];

  pairChoice.append(option("all", `all ${data.pairs.length} pairs`));
  data.pairs.forEach((pair, at) => pairChoice.append(option(at, pair.models.map(name).join(" – "))));
  data.metrics.forEach((metric) => metricChoice.append(option(metric, data.titles[metric] || metric)));

  // -1: the first model's caption scored higher, 1: the second's, 0: equal, null: no label
  const winner = (scores) => (!scores || scores[0] === null || scores[1] === null ? null : Math.sign(scores[1] - scores[0]));

  function choose() {
    const pairs = pairChoice.value === "all" ? data.pairs : [data.pairs[Number(pairChoice.value)]];
    const wanted = search.value.trim().toLowerCase();
    rows = [];
    for (const pair of pairs) {
      pair.images.forEach((id, at) => {
        const scores = pair.scores[metricChoice.value][at], won = winner(scores);
        const outcome = won === null ? "none" : won < 0 ? "first" : won > 0 ? "second" : "tie";
        if (winnerChoice.value !== "any" && winnerChoice.value !== outcome) return;
        const image = data.images[id];
        const words = [id, ...pair.models.map((model) => image.captions[model]), ...image.references].join(" ").toLowerCase();
        if (wanted && !words.includes(wanted)) return;
        rows.push({ pair, id, scores, won, similarity: pair.similarity[at], image });
      });
    }
    cards.replaceChildren();
    shown = 0;
    showMore();
    const different = new Set(rows.map((row) => row.id)).size;
    count.textContent = `${rows.length} comparisons on ${different} images`;
  }

  function showMore() {
    rows.slice(shown, shown + STEP).forEach((row) => cards.append(card(row)));
    shown = Math.min(shown + STEP, rows.length);
    more.hidden = shown >= rows.length;
    more.textContent = `Show more (${rows.length - shown} left)`;
  }

  function card({ pair, id, scores, won, similarity, image }) {
    const made = element("article", "card");
    if (image.thumbnail) {
      const shown = element("img");
      shown.src = image.thumbnail; shown.alt = `image ${id}`; shown.loading = "lazy";
      made.append(shown);
    } else {
      made.append(element("div", "blank", `image ${id}`));
    }
    const text = element("div", "text");
    pair.models.forEach((model, side) => {
      const wins = won !== null && won === (side ? 1 : -1);
      const shownCaption = element("div", wins ? "card-caption won" : "card-caption");
      const who = element("div", "who");
      who.append(element("span", "", name(model) + (wins ? " ✓" : "")));
      who.append(element("span", "", scores && scores[side] !== null ? scores[side].toFixed(3) : ""));
      shownCaption.append(who, element("div", "", image.captions[model] || "(empty caption)"));
      text.append(shownCaption);
    });
    text.append(references(image), everyone(image, pair));
    text.append(element("div", "small soft", `${id} · similarity ${similarity.toFixed(3)}`));
    made.append(text);
    return made;
  }

  function references(image) {
    const box = element("details");
    box.open = true;
    box.append(element("summary", "soft", image.references.length ? "reference captions" : "not labelled yet"));
    const list = element("ul");
    image.references.forEach((caption) => list.append(element("li", "", caption)));
    box.append(list);
    return box;
  }

  function everyone(image, pair) {
    const box = element("details");
    const rest = data.models.map((_, model) => model).filter((model) => !pair.models.includes(model));
    if (!rest.length) return element("span");
    box.append(element("summary", "soft", "captions of the other models"));
    const list = element("ul");
    rest.forEach((model) => {
      const item = element("li");
      item.append(element("b", "", `${name(model)}: `), document.createTextNode(image.captions[model]));
      list.append(item);
    });
    box.append(list);
    return box;
  }

  [pairChoice, metricChoice, winnerChoice].forEach((input) => input.addEventListener("change", choose));
  search.addEventListener("input", choose);
  more.addEventListener("click", showMore);
  pairChoice.value = data.pairs.length ? "0" : "all";
  choose();
})();
