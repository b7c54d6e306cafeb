// The lead's page: refreshed every few seconds; everything people wrote is shown as text, never as HTML.
import { $, ask, say } from "./common.js";

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
const NAMES = { write: "Sentences written", inspect: "Votes on sentences", judge: "Captions compared" };

function showProgress(rounds) {
  $("progress").replaceChildren(
    ...rounds.map((part) => {
      const made = document.createElement("label");
      made.className = "meter";
      const bar = Object.assign(document.createElement("progress"), { max: Math.max(part.wanted, 1), value: part.done });
      const left = part.hours_left ? `, about ${time(part.hours_left)} of one person’s work left` : "";
      made.append(`${NAMES[part.round]}: ${part.done} of ${part.wanted}${left}`, bar);
      return made;
    }),
  );
}

function action(name, run) {
  const made = Object.assign(document.createElement("button"), { type: "button", textContent: name, className: "quiet" });
  made.addEventListener("click", () => run().then(refresh, (error) => say(error.message, true)));
  return made;
}

function showPeople(people) {
  const body = $("people").tBodies[0];
  if (body.contains(document.activeElement)) return; // somebody is using its buttons
  body.replaceChildren(
    ...people.map((person) => {
      const actions = document.createElement("span");
      const path = `/api/lead/people/${person.id}`;
      actions.append(action("New link", async () => link(person.name, await ask("POST", `${path}/renew`, {}))));
      if (!person.qualified) actions.append(action("Qualify", () => ask("POST", `${path}/qualify`, {})));
      actions.append(
        action("Remove data", async () => {
          if (confirm(`Remove everything that ${person.name} did?`)) await ask("DELETE", path, {});
        }),
      );
      const name = person.why ? `${person.name} (${person.why})` : person.name;
      const made = row(cell(person.id), cell(name), cell(person.role), cell(person.items), cell(round(person.seconds)), cell(person.discarded), cell(actions));
      if (person.why) made.className = "stands-out";
      return made;
    }),
  );
}

const FACTS = { images: "images with references", refs: "references an image", words: "words a sentence", max_refs: "most references", min_refs: "fewest references", max_words: "longest sentence", min_words: "shortest sentence", discarded: "discarded sentences", replaced_images: "replaced images", vote_agreement: "agreement of votes (Krippendorff’s α)" };

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
    `${entry.rank_low} – ${entry.rank_high}`,
    `${round(100 * entry.first, 0)}%`,
    ...(judged ? [found.people[entry.model]] : []),
  ]);
  table.append(row(...titles.map((name) => cell(name, "th"))), ...lines.map((line) => row(...line.map((value) => cell(value)))));
  const scroll = Object.assign(document.createElement("div"), { className: "scroll" });
  scroll.append(table);
  const notes = [...found.notes, ...found.agreement.map(tau)];
  if (judged) notes.push("By people: the rank by Bradley-Terry from captions they compared.");
  const { cider, rouge_l } = found.sentences;
  if (cider !== null) notes.push(`Each sentence against the others of its image: CIDEr ${round(cider, 2)}, ROUGE-L ${round(rouge_l, 2)}.`);
  $("ranking").replaceChildren(scroll, ...notes.map((note) => Object.assign(cell(note, "p"), { className: "muted" })));
  $("stable").textContent =
    found.labels_needed === 0
      ? `The winner is settled: the risk that more labels change it is ${round(100 * found.risk, 1)}%. You can stop.`
      : `About ${found.labels_needed} more images until the winner is settled (risk now ${round(100 * found.risk, 0)}%).`;
}

const tau = (one) =>
  `Agreement of ${one.metric} with people’s preferences: Kendall’s τ ${round(one.tau, 2)} (95%: ${round(one.low, 2)} to ${round(one.high, 2)}, ${one.judgements} judgements).`;

function link(name, answer) {
  const address = new URL(answer.path, location.href).href;
  const code = Object.assign(document.createElement("code"), { textContent: address });
  $("invited").replaceChildren(`Send this link to ${name}; it is shown only once: `, code);
}

async function refresh() {
  const found = await ask("GET", "/api/lead/overview");
  showProgress(found.progress);
  showPeople(found.people);
  showStatistics(found.statistics);
}

$("invite").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = new FormData(event.target);
  try {
    const answer = await ask("POST", "/api/lead/invite", { name: form.get("name"), role: form.get("role") });
    link(answer.name, answer);
    event.target.reset();
    await refresh();
  } catch (error) {
    say(error.message, true);
  }
});

$("settings").addEventListener("submit", async (event) => {
  event.preventDefault();
  const values = Object.fromEntries([...new FormData(event.target)].map(([name, value]) => [name, name === "consent" ? value : Number(value)]));
  try {
    await ask("PATCH", "/api/lead/settings", values);
    say("Saved.");
    await refresh();
  } catch (error) {
    say(error.message, true);
  }
});

$("names").addEventListener("change", (event) => {
  for (const form of ["sentences", "audit"]) $(`export-${form}`).search = event.target.checked ? "?names=true" : "";
});

const rank = () => ask("GET", `/api/lead/ranking?metric=${$("metric").value}`).then(showRanking, () => {});
const keepRanking = () => rank().finally(() => setTimeout(keepRanking, 15000)); // one question at a time
$("metric").addEventListener("change", rank);
refresh().catch((error) => say(error.message, true));
keepRanking();
setInterval(() => refresh().catch(() => {}), 5000);
