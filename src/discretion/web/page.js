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

for (const choice of document.querySelectorAll("[data-show]")) {
  const show = () => document.querySelectorAll("[data-when]").forEach((one) => { one.hidden = one.dataset.when !== choice.value; });
  choice.addEventListener("change", show);
  show();
}

const job = document.querySelector("[data-poll]");
if (job?.querySelector("[data-running]")) {
  const timer = setInterval(async () => {
    try { await fill(job, job.dataset.poll); } catch { return; } // the server is away: keep asking
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
