"use strict";
const status = document.getElementById("status"), live = document.getElementById("live");
const source = new EventSource("events");

source.addEventListener("page", (event) => {
  const update = JSON.parse(event.data);
  const open = [...live.querySelectorAll("details")].map((each) => each.open);
  live.innerHTML = update.main;
  live.querySelectorAll("details").forEach((each, i) => { if (i < open.length) each.open = open[i]; });
  status.textContent = update.status;
  document.body.dataset.version = update.version;
});
source.addEventListener("end", () => {
  source.close();
  status.textContent = `${status.textContent} The run has ended; this page stays as it is.`;
  document.body.dataset.ended = "yes";
});
source.addEventListener("error", () => {
  if (!document.body.dataset.ended) status.textContent = "The connection is lost; what was seen last stands below.";
});
