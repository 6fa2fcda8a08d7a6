// The page as a whole: what is drawn, in which order, and what is said where it cannot be.

async function start() {
  const report = await unpacked(document.getElementById("numbers").textContent);
  mountHeads(report);
  mountMaps(report);
  mountViews(report);
  linkFindings(report);
  followLinks();
  mountTable(report);
  document.documentElement.dataset.ready = "yes";
}

/** Folded tables are printed, but for very long ones. */
window.addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details.numbers")) {
    details.dataset.wasOpen = details.open;
    details.open = details.querySelectorAll("tr").length <= 60;
  }
});
window.addEventListener("afterprint", () => {
  for (const details of document.querySelectorAll("details.numbers")) details.open = details.dataset.wasOpen === "true";
});

start().catch((error) => {
  const unread = document.getElementById("unread");
  unread.textContent = `The pictures cannot be drawn in this browser (${error.message}); the tables below do not need them.`;
  unread.hidden = false;
  throw error;
});
