// Right or wrong, with a reason.
import { $ } from "./common.js";
import { Round, onKeys } from "./round.js";

const round = new Round("inspect", (next) => {
  $("sentence").textContent = next.sentence;
  $("reason").value = "";
  $("reason").blur();
});
const vote = (right) => round.submit("/api/vote", { right, reason: right ? "" : $("reason").value });

function giveReason(event) {
  event.preventDefault();
  $("reason").focus();
}

$("right").addEventListener("click", () => vote(true));
$("wrong").addEventListener("click", () => vote(false));
$("reason").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.repeat) vote(false);
  if (event.key === "Escape") $("reason").blur();
});
onKeys({ R: () => vote(true), W: () => vote(false), U: () => round.undo(), E: giveReason });
round.start();
