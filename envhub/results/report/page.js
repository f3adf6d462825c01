"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const find = (id) => document.getElementById(id);
const KINDS = { s: "succeeded", f: "failed", e: "ended by an error of the env", u: "success is not reported" };
const HEIGHTS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
const PART = 20;
const tasks = new Map(data.tasks.map(([name, ...rest]) => [name, read(name, ...rest)]));
let shown = null, timeline = null, chosen = [], listed = PART;

function read(name, instruction, states, kinds, steps, rewards, seeds, won, errors) {
  const of = (values, i) => (Array.isArray(values) ? values[i] : values);
  const rows = [];
  [...kinds].forEach((kind, episode) => {
    if (kind === " ") return;
    const i = rows.length, seed = Array.isArray(seeds) ? seeds[i] : seeds + episode;
    const row = { name, episode, kind, seed, steps: of(steps, i), reward: of(rewards, i), error: errors[episode] };
    row.success = kind === "s" ? won[episode] ?? row.steps : won[episode];
    row.video = (data.videos[name] || {})[episode];
    rows.push(row);
  });
  return { instruction, states, rows };
}

function make(tag, text, properties = {}) {
  const made = Object.assign(document.createElement(tag), properties);
  made.textContent = text;
  return made;
}

const breakable = (name) => name.split(/(?<=[_.])/).flatMap((part) => [part, document.createElement("wbr")]);

function open(name, index, among) {
  const task = tasks.get(name);
  const rows = among || (task ? task.rows : []);
  const place = rows.findIndex((row) => row.name === name && row.episode === index);
  if (place < 0) return;
  const row = rows[place];
  shown = { rows, place };
  find("name").replaceChildren(...breakable(name), `, episode ${row.episode}`);
  const facts = [["Outcome", KINDS[row.kind]], ["Steps", row.steps], ["Return", row.reward], ["Seed", row.seed]];
  if (task.instruction) facts.unshift(["Instruction", task.instruction]);
  if (task.states) facts.push(["Initial state", row.episode % task.states]);
  if (row.success) facts.push(["First success after", `${row.success} steps`]);
  find("facts").replaceChildren(...facts.flatMap(([term, text]) => [make("dt", term), make("dd", text)]));
  showCurves(row);
  showVideo(row);
  const trace = (data.tracebacks[name] || {})[row.episode];
  find("trace").hidden = trace === undefined;
  find("trace").querySelector("pre").textContent = trace || "";
  find("error").hidden = row.error === undefined;
  find("error").textContent = row.error === undefined ? "" : data.errors[row.error];
  find("before").disabled = place === 0;
  find("next").disabled = place === rows.length - 1;
  history.replaceState(null, "", `#${encodeURIComponent(name)}.${row.episode}`);
  if (!find("episode").open) find("episode").showModal();
}

const address = (file) => file.split("/").map(encodeURIComponent).join("/");

function showVideo(row) {
  const video = find("video"), found = row.video;
  video.hidden = find("fast").hidden = !found;
  find("draw").hidden = Boolean(found);
  find("command").textContent = `envhub replay ${data.run} ${row.name}:${row.episode}`;
  find("replayed").hidden = !(found && found[1]);
  if (!found) {
    video.removeAttribute("src");
    return;
  }
  video.src = address(found[0]);
  hasten();
  video.setAttribute("aria-label", `Video of ${row.name}, episode ${row.episode}`);
  find("replayed").textContent = `Replayed differently from step ${found[1]}: this is not quite what was recorded.`;
}

function hasten() {
  find("video").defaultPlaybackRate = find("video").playbackRate = Number(find("speed").value);
}

function showCurves(row) {
  const curves = (data.curves[row.name] || {})[row.episode];
  timeline = { steps: row.steps, every: row.video ? row.video[2] : 1, curves };
  find("curves").hidden = find("curve").hidden = !curves;
  find("step").max = row.steps;
  if (!curves) return;
  const [[low, high, [rewards]], [least, most, actions]] = curves;
  find("line-of-rewards").setAttribute("d", line(rewards));
  caption("curve", `Reward of each step, from ${low} to ${high}`);
  find("acting").hidden = !actions.length;
  const drawn = actions.map((heights, i) => path(line(heights), `a${i}`));
  const svg = find("acting").querySelector("svg");
  svg.replaceChildren(...drawn, svg.querySelector(".cursor"));
  const numbers = actions.length === 1 ? "The action" : `The first ${actions.length} numbers of the action`;
  caption("acting", `${numbers}, from ${least} to ${most}:`, ...actions.flatMap((_, i) => key(i)));
  moveTo(0);
}

function caption(id, words, ...more) {
  find(id).querySelector("svg").setAttribute("aria-label", words);
  find(id).querySelector("figcaption").replaceChildren(words, ...more);
}

function shape(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

const path = (d, name) => shape("path", { d, class: name });

function key(i) {
  const svg = shape("svg", { viewBox: "0 0 16 4", "aria-hidden": "true" });
  svg.append(path("M0 2H16", `a${i}`));
  return [svg, String(i)];
}

function line(heights) {
  const step = 256 / Math.max(1, heights.length - 1);
  return `M${[...heights].map((c, i) => `${(i * step).toFixed(1)} ${(62 - 60 * HEIGHTS.indexOf(c) / 63).toFixed(1)}`).join("L")}`;
}

// Of a video, frame 0 is the reset, and the last frame is shown for a second more.
function frameRate() {
  const frames = Math.ceil(timeline.steps / timeline.every) + 1;
  return frames / Math.max(find("video").duration - 1, 0.01);
}

function moveTo(step) {
  const { steps, curves } = timeline;
  find("step").value = step;
  if (!curves) return;
  const x = (256 * Math.min(1, Math.max(0, step - 1) / Math.max(1, steps - 1))).toFixed(1);
  for (const cursor of document.querySelectorAll("figure .cursor")) cursor.setAttribute("d", `M${x} 0V64`);
  const [low, high, [rewards]] = curves[0];
  const height = HEIGHTS.indexOf(rewards[Math.round((x / 256) * (rewards.length - 1))]) / 63;
  const reward = step ? `, reward about ${Number((low + height * (high - low)).toPrecision(3))}` : "";
  find("at").textContent = `${step} of ${steps}${reward}`;
}

function seek(step) {
  moveTo(step);
  const video = find("video");
  if (!video.hidden && video.readyState) video.currentTime = (Math.ceil(step / timeline.every) + 0.5) / frameRate();
}

function follow() {
  const video = find("video");
  if (!timeline || video.hidden || !video.readyState) return;
  moveTo(Math.min(timeline.steps, Math.floor(video.currentTime * frameRate()) * timeline.every));
  if (!video.paused) requestAnimationFrame(follow);
}

find("step").addEventListener("input", () => seek(Number(find("step").value)));
for (const name of ["play", "pause", "timeupdate"]) find("video").addEventListener(name, follow);
find("video").addEventListener("loadedmetadata", hasten);
find("speed").addEventListener("input", hasten);
for (const svg of document.querySelectorAll("figure svg")) {
  const pick = (event) => {
    const box = svg.getBoundingClientRect();
    const part = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    seek(1 + Math.round(part * (timeline.steps - 1)));
  };
  svg.addEventListener("pointerdown", (event) => {
    svg.setPointerCapture(event.pointerId);
    pick(event);
  });
  svg.addEventListener("pointermove", (event) => event.buttons && pick(event));
}

function move(by) {
  const row = shown && shown.rows[shown.place + by];
  if (row) open(row.name, row.episode, shown.rows);
}

function visit() {
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
    const box = strip.getBoundingClientRect(), scale = strip.viewBox.baseVal.width / box.width;
    const column = Math.floor(((event.clientX - box.left) * scale) / 6);
    open(strip.dataset.task, column + 50 * Math.floor(((event.clientY - box.top) * scale) / 17));
  });
  strip.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      open(strip.dataset.task, rows[0].episode);
    }
  });
}

function openHere(link, name, episode, among) {
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return; // in a tab of its own: the file
    event.preventDefault();
    open(name, episode, among);
  });
}

const films = [...document.querySelectorAll("a[data-episode]")];
const filmed = films.map((link) => tasks.get(link.dataset.task).rows.find((row) => row.episode === Number(link.dataset.episode)));
// A film is loaded when it is about to be seen; it shows its end, and plays below the pointer.
const watcher = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    watcher.unobserve(target);
    const video = make("video", "", { muted: true, playsInline: true, preload: "metadata", tabIndex: -1 });
    const rest = () => { video.pause(); video.currentTime = Math.max(0, video.duration - 0.5); };
    video.setAttribute("aria-hidden", "true");
    video.addEventListener("loadedmetadata", rest);
    target.addEventListener("pointerenter", () => {
      if (!video.readyState || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
      video.currentTime = 0;
      video.play().catch(() => {}); // it was paused before it began
    });
    target.addEventListener("pointerleave", rest);
    video.src = target.getAttribute("href");
    target.prepend(video);
  }
}, { rootMargin: "300px" });
films.forEach((link, i) => {
  openHere(link, filmed[i].name, filmed[i].episode, filmed);
  watcher.observe(link);
});
find("before").addEventListener("click", () => move(-1));
find("next").addEventListener("click", () => move(1));
find("close").addEventListener("click", () => find("episode").close());
find("episode").addEventListener("keydown", (event) => {
  if ([find("video"), find("step"), find("speed")].includes(event.target)) return; // arrows are theirs
  if (event.key === "ArrowLeft") move(-1);
  if (event.key === "ArrowRight") move(1);
});
find("episode").addEventListener("close", () => {
  shown = null;
  find("video").pause();
  history.replaceState(null, "", location.pathname + location.search);
});

function choose() {
  const kind = find("outcome").value, text = find("which").value.toLowerCase();
  const sort = find("order").value, sign = sort.startsWith("-") ? -1 : 1, field = sort.replace("-", "");
  chosen = [];
  for (const [name, { instruction, rows }] of tasks) {
    if (!`${name}\n${instruction}`.toLowerCase().includes(text)) continue;
    chosen.push(...rows.filter((row) => (!kind || row.kind === kind) && (!find("filmed").checked || row.video)));
  }
  if (field) chosen.sort((a, b) => sign * (Number(a[field]) - Number(b[field])) || 0);
  list();
}

function list() {
  const rows = chosen.slice(0, listed), among = chosen;
  find("count").textContent = `${chosen.length} of ${[...tasks.values()].reduce((sum, task) => sum + task.rows.length, 0)} episodes`
    + (rows.length < chosen.length ? `, of which the first ${rows.length} are shown` : "");
  find("list").replaceChildren(...rows.map((row) => {
    const link = make("a", "", { href: `#${encodeURIComponent(row.name)}.${row.episode}` });
    link.append(...breakable(row.name), `, ${row.episode}`);
    openHere(link, row.name, row.episode, among);
    const head = make("th", "", { scope: "row", className: "name" });
    head.append(link);
    const cells = [["", KINDS[row.kind]], ["steps", row.steps], ["return", row.reward], ["", row.video ? "video" : ""]];
    const line = make("tr", "");
    line.append(head, ...cells.map(([label, text]) => {
      const cell = make("td", text, { className: label ? "number" : "" });
      if (label) cell.dataset.label = label;
      return cell;
    }));
    return line;
  }));
  find("more").hidden = rows.length === chosen.length;
}

find("outcome").value = data.tasks.some(([, , , kinds]) => kinds.includes("f")) ? "f" : "";
for (const id of ["outcome", "which", "order", "filmed"]) {
  find(id).addEventListener("input", () => { listed = PART; choose(); });
}
find("more").addEventListener("click", () => { listed += 10 * PART; list(); });
find("all").hidden = false;
choose();

function arrange() {
  const text = find("find").value.toLowerCase(), failing = find("failing").checked;
  for (const row of document.querySelectorAll(".task")) {
    const words = `${row.dataset.name}\n${tasks.get(row.dataset.name).instruction}`.toLowerCase();
    row.hidden = !words.includes(text) || (failing && row.dataset.failures === "0");
  }
  for (const body of document.querySelectorAll("tbody:not(#list)")) {
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
addEventListener("hashchange", visit);
visit();
