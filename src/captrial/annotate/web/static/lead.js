// The lead's page, refreshed every few seconds. What people wrote is shown as text, never as HTML.
import { $, request, notify } from "./common.js";

function cell(content, tag = "td") {
  const made = document.createElement(tag);
  made.append(content ?? "–");
  return made;
}

function row(...cells) {
  const made = document.createElement("tr");
  made.append(...cells);
  return made;
}

const round = (value, digits = 1) => (value === null || value === undefined ? "–" : Number(value).toFixed(digits));
const time = (hours) => (hours < 1 ? `${Math.ceil(60 * hours)} min` : `${round(hours)} h`);

function showProgress(rounds) {
  $("progress").replaceChildren(
    ...rounds.map((part) => {
      const made = document.createElement("label");
      made.className = "meter";
      const bar = Object.assign(document.createElement("progress"), { max: Math.max(part.wanted, 1), value: part.done });
      const left = part.hours_left ? `, about ${time(part.hours_left)} of one person’s work left` : "";
      made.append(`${part.title}: ${part.done} of ${part.wanted}${left}`, bar);
      return made;
    }),
  );
}

function action(name, run) {
  const made = Object.assign(document.createElement("button"), { type: "button", textContent: name, className: "quiet" });
  made.addEventListener("click", () => run().then(refresh, (error) => notify(error.message, true)));
  return made;
}

function showPeople(people) {
  const body = $("people").tBodies[0];
  if (body.contains(document.activeElement)) return; // its buttons are in use
  body.replaceChildren(
    ...people.map((person) => {
      const actions = document.createElement("span");
      const path = `/api/lead/people/${person.id}`;
      actions.append(action("New link", async () => link(person.name, await request("POST", `${path}/renew`, {}))));
      if (!person.qualified) actions.append(action("Qualify", () => request("POST", `${path}/qualify`, {})));
      actions.append(
        action("Remove data", async () => {
          if (confirm(`Remove everything that ${person.name} did?`)) await request("DELETE", path, {});
        }),
      );
      const name = person.why ? `${person.name} (${person.why})` : person.name;
      const made = row(cell(person.id), cell(name), cell(person.role), cell(person.items), cell(round(person.seconds)), cell(person.discarded), cell(actions));
      if (person.why) made.className = "stands-out";
      return made;
    }),
  );
}

const FACTS = { images: "images with references", refs: "references per image", words: "words per caption", max_refs: "most references", min_refs: "fewest references", max_words: "longest caption", min_words: "shortest caption", discarded: "discarded captions", replaced_images: "replaced images", vote_agreement: "agreement of votes (Krippendorff’s α)" };

function showStatistics(statistics) {
  $("statistics").replaceChildren(
    ...Object.entries(FACTS).flatMap(([name, title]) => {
      const value = statistics[name];
      return [cell(title, "dt"), cell(Number.isInteger(value) ? String(value) : round(value, 2), "dd")];
    }),
  );
}

function showRanking(found) {
  if (!found.ready) return;
  const table = document.createElement("table");
  const judged = Object.keys(found.people).length > 0;
  const titles = ["Rank", "Model", "Score", "95%", "First", ...(judged ? ["By people"] : [])];
  const lines = found.ranking.map((entry) => [
    entry.rank,
    entry.model,
    round(entry.score, 3),
    entry.rank_low === null ? "–" : `${entry.rank_low} – ${entry.rank_high}`,
    entry.first === null ? "–" : `${round(100 * entry.first, 0)}%`,
    ...(judged ? [found.people[entry.model]] : []),
  ]);
  table.append(row(...titles.map((name) => cell(name, "th"))), ...lines.map((line) => row(...line.map((value) => cell(value)))));
  const scroll = Object.assign(document.createElement("div"), { className: "scroll" });
  scroll.append(table);
  const notes = [...found.notes, ...found.agreement.map(tau)];
  if (judged) notes.push("By people: the rank by Bradley-Terry from the captions that people compared.");
  const scores = Object.entries(found.captions).filter(([, score]) => score !== null);
  if (scores.length) {
    const shown = scores.map(([metric, score]) => `${metricTitle(metric)} ${round(score, 2)}`);
    notes.push(`Each reference scored against the others of its image: ${shown.join(", ")}.`);
  }
  $("ranking").replaceChildren(scroll, ...notes.map((note) => Object.assign(cell(note, "p"), { className: "muted" })));
  const plan = found.plan;
  $("stable").textContent = found.metric === "preferences" ? found.summary : !plan
    ? "Whether the winner is settled on the whole pool needs a sample of it: captrial compete select --design hybrid."
    : plan.labels >= plan.images
      ? `Every image of the pool is labelled: ${plan.winner} is first on it. What that says about other images, the intervals show.`
      : plan.settled
      ? `Settled: ${plan.winner} is first on the whole pool, at a risk of ${round(100 * plan.risk, 0)}% to be wrong. You can stop.`
      : plan.labels_needed === null
        ? `Not settled: ${plan.winner} is ahead on the whole pool, but it looks like a tie.`
        : `Not settled: ${plan.winner} is ahead on the whole pool; about ${plan.labels_needed} more images are needed.`;
}

const metricTitle = (metric) => $("metric").querySelector(`option[value="${metric}"]`)?.textContent ?? metric;

const tau = (one) =>
  `Agreement of ${metricTitle(one.metric)} with people’s preferences: Kendall’s τ ${round(one.tau, 2)} (95%: ${round(one.low, 2)} to ${round(one.high, 2)}, ${one.judgements} judgements).`;

function link(name, answer) {
  const code = Object.assign(document.createElement("code"), { textContent: answer.link });
  const copy = Object.assign(document.createElement("button"), { type: "button", textContent: "Copy" });
  copy.addEventListener("click", () => copyText(answer.link, code).then(() => (copy.textContent = "Copied")));
  const image = Object.assign(document.createElement("img"), { src: answer.qr, alt: `QR code of the link of ${name}`, className: "qr" });
  $("invited").replaceChildren(`Send this link to ${name}, or scan it. It is shown only once: `, code, " ", copy, image);
}

// The clipboard is for HTTPS and this machine only; elsewhere the link is marked, to be copied by hand.
async function copyText(text, place) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const range = document.createRange();
  range.selectNodeContents(place);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
  document.execCommand("copy");
}

async function refresh() {
  const found = await request("GET", "/api/lead/overview");
  showProgress(found.progress);
  $("missing").hidden = found.missing_people.length === 0;
  $("missing").textContent = found.missing_people.join(" ");
  showPeople(found.people);
  showStatistics(found.statistics);
}

$("invite").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = new FormData(event.target);
  try {
    const answer = await request("POST", "/api/lead/invite", { name: form.get("name"), role: form.get("role") });
    link(answer.name, answer);
    event.target.reset();
    await refresh();
  } catch (error) {
    notify(error.message, true);
  }
});

$("settings").addEventListener("submit", async (event) => {
  event.preventDefault();
  const values = Object.fromEntries([...new FormData(event.target)].map(([name, value]) => [name, name === "consent" ? value : Number(value)]));
  try {
    await request("PATCH", "/api/lead/settings", values);
    notify("Saved.");
    await refresh();
  } catch (error) {
    notify(error.message, true);
  }
});

$("names").addEventListener("change", (event) => {
  for (const link of document.querySelectorAll("[data-has-names]")) link.search = event.target.checked ? "?names=true" : "";
});

const rank = () => request("GET", `/api/lead/ranking?metric=${$("metric").value}`).then(showRanking, () => {});
const refreshRanking = () => rank().finally(() => setTimeout(refreshRanking, 15000)); // one request at a time
$("metric").addEventListener("change", rank);
refresh().catch((error) => notify(error.message, true));
refreshRanking();
setInterval(() => refresh().catch(() => {}), 5000);
