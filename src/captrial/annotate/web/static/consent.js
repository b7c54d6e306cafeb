import { $, ask, say } from "./common.js";

$("agree").addEventListener("click", async () => {
  try {
    await ask("POST", "/api/consent", {});
    location.href = "/";
  } catch (error) {
    say(error.message, true);
  }
});
