// Two captions side by side, blind: which is better?
import { $ } from "./common.js";
import { Round, onKeys } from "./round.js";

const round = new Round("judge", (next) => {
  [$("left-text").textContent, $("right-text").textContent] = next.captions;
});
const choose = (winner) => round.submit("/api/judge", { winner });

for (const winner of ["left", "right", "tie"]) $(winner).addEventListener("click", () => choose(winner));
onKeys({ 1: () => choose("left"), 2: () => choose("right"), 0: () => choose("tie"), U: () => round.undo() });
round.start();
