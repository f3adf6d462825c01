"use strict";
const find = (id) => document.getElementById(id);
const pairs = [...document.querySelectorAll(".pair")];
pairs.forEach((pair, i) => { pair.dataset.place = String(i); });

function arrange() {
  const text = find("find").value.toLowerCase(), order = find("order").value;
  const key = order.replace("-", ""), sign = order.startsWith("-") ? -1 : 1;
  for (const pair of pairs) {
    const same = find("differing").checked && Number(pair.dataset.difference) === 0;
    pair.hidden = same || !pair.dataset.name.toLowerCase().includes(text);
  }
  pairs.sort((x, y) => sign * (x.dataset[key] - y.dataset[key]) || x.dataset.place - y.dataset.place);
  pairs[0]?.parentNode.append(...pairs);
}
for (const id of ["find", "order", "differing"]) find(id).addEventListener("input", arrange);
find("controls").hidden = false;
