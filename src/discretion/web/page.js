// All the script there is: parts of pages by link, rows of lists, parts inside parts, a running job.
"use strict";
const fill = async (element, address) => {
  const answer = await fetch(address, { headers: { "X-Part": "1" } });
  if (!answer.ok) throw new Error(answer.status);
  element.innerHTML = await answer.text();
};

document.addEventListener("click", (event) => {
  const link = event.target.closest("[data-into]");
  if (link) {
    event.preventDefault();
    fill(document.getElementById(link.dataset.into), link.href).then(() => history.replaceState(null, "", link.href), () => location.assign(link.href));
  }
  const add = event.target.closest("[data-add]");
  if (add) {
    const rows = add.parentElement.querySelector(":scope > [data-rows]"), number = rows.dataset.next++;
    rows.insertAdjacentHTML("beforeend", add.parentElement.querySelector(":scope > template").innerHTML.replaceAll(".#", "." + number));
    rows.lastElementChild.querySelector("select, input")?.focus();
  }
  const remove = event.target.closest("[data-remove]");
  if (remove) {
    const again = remove.closest("fieldset").querySelector(":scope > [data-add]");
    remove.closest(".row").remove();
    again.focus();
  }
});

document.addEventListener("change", (event) => {
  const { part } = event.target.dataset;
  if (part !== undefined) {
    const inner = event.target.parentElement.querySelector(`:scope > [data-inner="${part}"]`), root = location.pathname.split("/").slice(0, 3).join("/");
    fill(inner, `${root}/fields?${new URLSearchParams({ kind: event.target.value, at: part })}`);
  }
});

document.addEventListener("input", (event) => {
  if ("echo" in event.target.dataset) event.target.nextElementSibling.value = event.target.value;
});

const here = document.querySelector(".rail [aria-current]"), rail = here?.closest(".rail"); // it scrolls sideways where it is narrow
if (rail) rail.scrollLeft = here.offsetLeft - rail.clientWidth / 2 + here.clientWidth / 2;

for (const choice of document.querySelectorAll("[data-show]")) {
  const show = () => document.querySelectorAll("[data-when]").forEach((one) => { one.hidden = one.dataset.when !== choice.value; });
  choice.addEventListener("change", show);
  show();
}

const groups = document.querySelector("[data-groups]"), bins = document.querySelector("[data-bins]");
if (groups) {
  const inputs = [...groups.querySelectorAll("[name='level.1']")];
  const chip = (input) => {
    const made = Object.assign(document.createElement("span"), { textContent: input.dataset.value, draggable: true });
    made.addEventListener("dragstart", (event) => event.dataTransfer.setData("text/plain", inputs.indexOf(input)));
    return made;
  };
  const bin = (label, inside) => {
    const made = document.createElement("div");
    made.append(Object.assign(document.createElement("strong"), { textContent: label || "a new group" }), ...inside.map(chip));
    made.addEventListener("dragover", (event) => event.preventDefault());
    made.addEventListener("drop", (event) => {
      event.preventDefault();
      const input = inputs[event.dataTransfer.getData("text/plain")];
      if (!input) return;
      input.value = label || `${input.dataset.value} …`;
      const above = (one) => one?.closest("tr").querySelector("[name='level.2']"); // levels nest
      if (inside.length && above(input)) above(input).value = above(inside[0]).value;
      draw();
    });
    return made;
  };
  const draw = () => bins.replaceChildren(...[...new Set(inputs.map((one) => one.value)), ""].map((label) => bin(label, inputs.filter((one) => label && one.value === label))));
  groups.addEventListener("input", draw);
  draw();
}

const job = document.querySelector("[data-poll]");
if (job?.querySelector("[data-running]")) {
  const next = document.createElement("div"); // only words and the bar are changed, so that Cancel keeps the focus
  const timer = setInterval(async () => {
    try { await fill(next, job.dataset.poll); } catch { return; } // the server is away: keep asking
    const [was, is] = [job, next].map((one) => ["[data-label]", "progress"].map((name) => one.querySelector(name)));
    if (next.querySelector("[data-running]") && was[0] && is[0]) {
      if (was[0].textContent !== is[0].textContent) was[0].textContent = is[0].textContent;
      for (const name of ["max", "value"]) is[1].hasAttribute(name) ? was[1].setAttribute(name, is[1].getAttribute(name)) : was[1].removeAttribute(name);
    } else job.innerHTML = next.innerHTML;
    if (!job.querySelector("[data-running]")) {
      clearInterval(timer);
      if (!job.querySelector(".wrong")) location.reload();
    }
  }, 500);
}

const live = document.querySelector("[data-live]");
if (live) {
  const events = new EventSource(live.dataset.live);
  events.addEventListener("map", (event) => { live.innerHTML = event.data; });
  events.addEventListener("end", () => events.close()); // the job above reloads the page
}
