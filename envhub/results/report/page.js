"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const find = (id) => document.getElementById(id);
const KINDS = { s: "succeeded", f: "failed", e: "ended by an error of the env", u: "success is not reported" };
const tasks = new Map(data.tasks.map(([name, states, rows, seeds]) => [name, { states, rows, seeds }]));
let shown = null;

function open(name, index) {
  const task = tasks.get(name);
  const place = task ? task.rows.findIndex((row) => row[0] === index) : -1;
  if (place < 0) return;
  const [episode, kind, steps, reward, , successStep, error] = task.rows[place];
  shown = { name, place };
  find("name").textContent = `${name}, episode ${episode}`;
  const facts = [["Outcome", KINDS[kind]], ["Steps", steps], ["Return", reward], ["Seed", task.seeds ? task.seeds[place] : data.seed + episode]];
  if (task.states) facts.push(["Initial state", episode % task.states]);
  if (successStep) facts.push(["First success after", `${successStep} steps`]);
  find("facts").replaceChildren(...facts.flatMap(([term, text]) => {
    const dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = term;
    dd.textContent = text;
    return [dt, dd];
  }));
  showVideo(name, episode);
  showCurve(name, episode);
  const trace = (data.tracebacks[name] || {})[episode];
  find("trace").hidden = trace === undefined;
  find("trace").querySelector("pre").textContent = trace || "";
  find("error").hidden = error === undefined;
  find("error").textContent = error === undefined ? "" : data.errors[error];
  history.replaceState(null, "", `#${encodeURIComponent(name)}.${episode}`);
  if (!find("episode").open) find("episode").showModal();
}

function showVideo(name, episode) {
  const video = find("video"), found = (data.videos[name] || {})[episode];
  video.hidden = !found;
  find("draw").hidden = Boolean(found);
  find("command").textContent = `envhub replay ${data.run} ${name}:${episode}`;
  find("replayed").hidden = !(found && found[1]);
  if (!found) {
    video.removeAttribute("src");
    return;
  }
  video.src = found[0].split("/").map(encodeURIComponent).join("/");
  video.setAttribute("aria-label", `Video of ${name}, episode ${episode}`);
  find("replayed").textContent = `Replayed differently from step ${found[1]}: this is not quite what was recorded.`;
}

function showCurve(name, episode) {
  const curve = (data.curves[name] || {})[episode];
  find("curve").hidden = !curve;
  if (!curve) return;
  const [low, high, heights] = curve, step = 256 / Math.max(1, heights.length - 1);
  const points = heights.map((height, i) => `${(i * step).toFixed(1)} ${(62 - 0.6 * height).toFixed(1)}`);
  find("line-of-rewards").setAttribute("d", `M${points.join("L")}`);
  const words = `Reward of each step, from ${low} to ${high}`;
  find("curve").querySelector("svg").setAttribute("aria-label", words);
  find("curve").querySelector("figcaption").textContent = words;
}

function move(by) {
  if (!shown) return;
  const row = tasks.get(shown.name).rows[shown.place + by];
  if (row) open(shown.name, row[0]);
}

function follow() {
  const dot = location.hash.lastIndexOf(".");
  if (dot < 0) return;
  try {
    open(decodeURIComponent(location.hash.slice(1, dot)), Number(location.hash.slice(dot + 1)));
  } catch (problem) {
    if (!(problem instanceof URIError)) throw problem; // an address somebody typed
  }
}

for (const strip of document.querySelectorAll(".strip")) {
  const rows = tasks.get(strip.dataset.task).rows;
  if (!rows.length) continue;
  strip.setAttribute("role", "button");
  strip.setAttribute("tabindex", "0");
  strip.addEventListener("click", (event) => {
    open(strip.dataset.task, Math.floor((event.clientX - strip.getBoundingClientRect().left) / 6));
  });
  strip.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      open(strip.dataset.task, rows[0][0]);
    }
  });
}
for (const link of document.querySelectorAll("a[data-episode]")) {
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return; // in a tab of its own: the file
    event.preventDefault();
    open(link.dataset.task, Number(link.dataset.episode));
  });
}
find("before").addEventListener("click", () => move(-1));
find("next").addEventListener("click", () => move(1));
find("close").addEventListener("click", () => find("episode").close());
find("episode").addEventListener("keydown", (event) => {
  if (event.target === find("video")) return; // there the arrows move in time
  if (event.key === "ArrowLeft") move(-1);
  if (event.key === "ArrowRight") move(1);
});
find("episode").addEventListener("close", () => {
  shown = null;
  find("video").pause();
  history.replaceState(null, "", location.pathname + location.search);
});

function arrange() {
  const text = find("find").value.toLowerCase(), failing = find("failing").checked;
  for (const row of document.querySelectorAll(".task")) {
    row.hidden = !row.dataset.name.toLowerCase().includes(text) || (failing && row.dataset.failures === "0");
  }
  for (const body of document.querySelectorAll("tbody")) {
    const rows = [...body.querySelectorAll(".task")];
    rows.forEach((row, i) => { row.dataset.place ??= String(i); });
    const key = find("byrate").checked ? "rate" : "place";
    rows.sort((a, b) => a.dataset[key] - b.dataset[key] || a.dataset.place - b.dataset.place);
    body.append(...rows);
  }
}
for (const id of ["find", "failing", "byrate"]) find(id).addEventListener("input", arrange);
find("controls").hidden = false;
find("copy").hidden = false;
find("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(find("line").textContent);
    find("copy").textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(find("line")); // the browser does not allow it: Ctrl-C does
  }
});
addEventListener("hashchange", follow);
follow();
