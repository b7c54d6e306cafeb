import { $, request, notify } from "./common.js";

$("agree").addEventListener("click", async () => {
  try {
    await request("POST", "/api/consent", {});
    location.href = "/";
  } catch (error) {
    notify(error.message, true);
  }
});
