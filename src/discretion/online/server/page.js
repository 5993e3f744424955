"use strict";
// The page for analysts: it talks to the service it came from and keeps the key in memory only.
(() => {
  const at = (id) => document.getElementById(id);
  const make = (name, text, more = {}) => {
    const node = document.createElement(name);
    if (text !== undefined && text !== null) node.textContent = text;
    for (const [key, value] of Object.entries(more)) node.setAttribute(key, value);
    return node;
  };
  // Whole numbers in full, others with six digits; numbers of one column alike: as many decimals as the largest needs
  // (and no more than two digits of the narrowest interval), thousands set apart in all or in none.
  const numbersIn = (values) => values.flat(Infinity).filter((value) => typeof value === "number");
  const decimals = (values, widths = []) => {
    const numbers = numbersIn(values);
    if (numbers.every(Number.isInteger)) return 0;
    const digits = (value, count) => Math.min(20, Math.max(0, count - 1 - Math.floor(Math.log10(value || 1))));
    const places = digits(Math.max(...numbers.map(Math.abs)), 6);
    const narrow = widths.filter((width) => width > 0);
    return narrow.length ? Math.min(places, digits(Math.min(...narrow) / 2, 2)) : places;
  };
  const alike = (values, widths) => ({
    places: decimals(values, widths),
    grouping: numbersIn(values).some((value) => Math.abs(value) >= 10000), // 1980 stays a year
  });
  const shown = (value, form) => {
    if (value === null || value === undefined) return "–";
    if (typeof value !== "number") return String(value);
    if (!form && value !== 0 && Math.abs(value) < 0.0001) {
      const [digits, power] = value.toExponential(2).split("e");
      return `${Number(digits)} × 10${[...power].map((sign) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]).join("")}`;
    }
    const { places, grouping } = form ?? { places: undefined, grouping: Math.abs(value) >= 10000 };
    const range = { minimumFractionDigits: places ?? 0, maximumFractionDigits: places ?? decimals([value]) };
    return new Intl.NumberFormat("en", { ...range, useGrouping: grouping }).format(value);
  };
  let key = "";

  async function call(path, body) {
    const options = { headers: { Authorization: `Bearer ${key}` }, cache: "no-store" };
    if (body) {
      options.method = "POST";
      options.headers["Content-Type"] = "application/json";
      options.body = JSON.stringify(body);
    }
    let response, content;
    try {
      response = await fetch(path, options);
      content = await response.json();
    } catch {
      throw new Error("The service does not answer.");
    }
    if (!response.ok) throw new Error(content.error ? content.error.reason : "The service gave no reason.");
    return content;
  }

  function say(text, bad = false) {
    at("status").textContent = text.charAt(0).toUpperCase() + text.slice(1);
    at("status").classList.toggle("bad", bad);
  }

  const price = (cost) =>
    [["ε", cost.epsilon], ["ρ", cost.rho], ["δ", cost.delta]]
      .filter(([, amount]) => amount > 0)
      .map(([sign, amount]) => `${sign} ${shown(amount)}`)
      .join(", ") || "nothing";

  async function busy(work) {
    at("result").hidden = true; // no old answer beside a new question
    const buttons = [...document.querySelectorAll("button")];
    buttons.forEach((button) => (button.disabled = true));
    try {
      await work();
    } catch (error) {
      say(error.message, true);
    } finally {
      buttons.forEach((button) => (button.disabled = false));
    }
  }

  async function open() {
    key = at("key").value.trim();
    if (!/^[\x21-\x7e]+$/.test(key)) throw new Error("This is not a key.");
    const found = await call("tables");
    document.title = found.title;
    at("title").textContent = found.title;
    at("who").textContent = `Open for ${found.user} (${found.role}).`;
    at("sign-in").hidden = true;
    at("desk").hidden = false;
    at("ask").append(at("status")); // from now on what happens is told beside the buttons
    at("tables").replaceChildren(...found.tables.flatMap(tableCard));
    at("epsilon-field").hidden = !found.tables.some((table) => table.mode === "dp");
    if (!at("sql").value && found.tables.length) at("sql").value = `SELECT count(*) FROM "${found.tables[0].name}"`;
    await showBudgets();
    say("");
    at("sql").focus();
  }

  function tableCard(table) {
    const list = make("dl");
    for (const column of table.columns) {
      const about = [column.role, column.type];
      if (column.bounds) about.push(`${shown(column.bounds[0])} to ${shown(column.bounds[1])}`);
      if (column.categories.length) about.push(column.categories.slice(0, 8).map(shown).join(", ") + (column.categories.length > 8 ? ", …" : ""));
      if (column.description) about.push(column.description);
      list.append(clickable("dt", column.name), make("dd", about.join("; ")));
    }
    const cards = [clickable("h3", table.name)];
    if (table.description) cards.push(make("p", table.description, { class: "quiet" }));
    return [...cards, list];
  }

  // A name that writes itself, in double quotes, where the cursor stands in the question.
  function clickable(kind, name) {
    const button = make("button", name, { type: "button", class: "name", title: `Write ${name} into the question` });
    button.addEventListener("click", () => {
      const sql = at("sql");
      sql.setRangeText(`"${name.replaceAll('"', '""')}"`, sql.selectionStart, sql.selectionEnd, "end");
      sql.focus();
    });
    const node = make(kind);
    node.append(button);
    return node;
  }

  async function showBudgets() {
    const found = await call("budget");
    at("budgets").replaceChildren(...found.budgets.flatMap(budgetCard));
  }

  function budgetCard(budget) {
    if (budget.limit === null) {
      const words = { "exact+audit": "True figures over groups of people; questions that would tell too much are refused.",
        perturbed: "Answers are changed a little; they cost nothing." };
      return [make("h3", budget.table), make("p", words[budget.mode] || budget.mode, { class: "quiet" })];
    }
    const left = `${budget.unit} ${shown(budget.remaining)} of ${shown(budget.limit)} left`;
    const when = budget.period === "ever" ? "" : ` this ${budget.period}`;
    const meter = make("meter", left, { min: 0, max: budget.limit, value: budget.remaining, "aria-label": left });
    return [make("h3", budget.table), make("p", left + when), meter, burnDown(budget)];
  }

  // What was left after each charge, as steps from the full budget down.
  function burnDown(budget) {
    const width = 320, height = 130, frame = { left: 40, right: 8, top: 10, bottom: 24 };
    const [svg, add] = drawing(width, height, `Budget after each of ${budget.spending.length} charges, from ${shown(budget.limit)} down to ${shown(budget.remaining)}`);
    const steps = Math.max(budget.spending.length, 1);
    const x = (i) => frame.left + (i * (width - frame.left - frame.right)) / steps;
    const y = (value) => frame.top + (1 - Math.max(value, 0) / budget.limit) * (height - frame.top - frame.bottom);
    let left = budget.limit, line = `M${x(0)} ${y(left)}`;
    budget.spending.forEach((charge, i) => {
      left -= charge.amount;
      line += `V${y(left)}H${x(i + 1)}`;
    });
    if (!budget.spending.length) line += `H${x(1)}`;
    add("path", { class: "area", d: `${line}V${y(0)}H${x(0)}Z` });
    add("path", { class: "axis", d: `M${x(0)} ${frame.top}V${y(0)}H${width - frame.right}` });
    add("path", { class: "path", d: line });
    add("text", { x: frame.left - 5, y: y(budget.limit) + 4, "text-anchor": "end" }, shown(budget.limit));
    add("text", { x: frame.left - 5, y: y(0) + 4, "text-anchor": "end" }, "0");
    add("text", { x: width - frame.right, y: height - 6, "text-anchor": "end" }, `${budget.spending.length} ${budget.spending.length === 1 ? "charge" : "charges"}`);
    add("text", { x: frame.left, y: height - 6 }, `${budget.unit} left`);
    return svg;
  }

  function question() {
    const body = { sql: at("sql").value };
    if (!at("epsilon-field").hidden && at("epsilon").value) body.epsilon = Number(at("epsilon").value);
    return body;
  }

  function result(title, summary, notes) {
    at("result").hidden = false;
    at("result-title").textContent = title;
    at("summary").textContent = summary;
    at("notes").replaceChildren(...notes.map((note) => make("li", note.charAt(0).toUpperCase() + note.slice(1))));
    at("caption").textContent = "";
    at("figures").replaceChildren();
    at("chart").replaceChildren();
  }

  async function ask() {
    say("Asking …");
    const answer = await call("query", question());
    const cost = answer.cached ? "Asked before: it costs nothing" : `It cost ${price(answer.cost)}`;
    const left = answer.remaining ? `; left: ${price(answer.remaining)}` : "";
    result("Answer", `${cost}${left}.`, answer.notes);
    fill(answer);
    say(`Answered: ${answer.rows.length} ${answer.rows.length === 1 ? "row" : "rows"}.`);
    await showBudgets();
    at("result").focus();
  }

  function fill(answer) {
    const forms = answer.columns.map((_, c) => {
      const [lows, highs] = [answer.low || [], answer.high || []].map((rows) => rows.map((row) => row[c]).flat());
      return alike([answer.rows.map((row) => row[c]), lows, highs], lows.map((low, i) => highs[i] - low));
    });
    const prints = [];
    if (answer.low) prints.push(`In small print: where the figure without noise lies, ${shown(answer.confidence * 100)} % sure.`);
    if (answer.share) prints.push("In small print: how much of what was asked about a figure is over.");
    at("caption").textContent = prints.join(" ");
    const head = make("tr");
    answer.columns.forEach((name, i) => head.append(make("th", name, { scope: "col", ...(i >= answer.groups ? { class: "number" } : {}) })));
    const body = make("tbody");
    answer.rows.forEach((row, r) => {
      const line = make("tr");
      row.forEach((value, c) => {
        if (c < answer.groups) line.append(make("th", value === null ? "–" : String(value), { scope: "row" }));
        else {
          const cell = figure(value, answer.low && answer.low[r][c], answer.high && answer.high[r][c], answer.low, forms[c]);
          const share = answer.share && answer.share[r][c];
          if (typeof share === "number") cell.append(make("span", `${shown(Math.floor(1000 * share) / 10)} %`, { class: "between" }));
          line.append(cell);
        }
      });
      body.append(line);
    });
    const top = make("thead");
    top.append(head);
    at("figures").replaceChildren(top, body);
    at("chart").replaceChildren(...charts(answer, forms));
  }

  const drawing = (width, height, label) => {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", label);
    const add = (name, more, text) => {
      const node = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [attribute, value] of Object.entries(more)) node.setAttribute(attribute, value);
      if (text !== undefined) node.textContent = text;
      svg.append(node);
    };
    return [svg, add];
  };

  // One bar per group for each figure that is a number, with a line for its interval; the table holds the figures.
  function charts(answer, forms) {
    const rows = answer.rows.length;
    if (answer.groups === 0 || rows < 2 || rows > 40) return [];
    const numeric = answer.columns.map((_, c) => c).filter((c) =>
      c >= answer.groups && answer.rows.some((row) => typeof row[c] === "number"));
    return numeric.map((c) => {
      const name = answer.columns[c], high = 18, left = 120, right = 60, width = 420;
      const ends = answer.rows.map((row, r) => [row[c], answer.low && answer.low[r][c], answer.high && answer.high[r][c]]);
      const all = [0, ...ends.flat().filter((value) => typeof value === "number")];
      const low = Math.min(...all), span = Math.max(...all) - low || 1;
      const x = (value) => left + ((value - low) / span) * (width - left - right);
      const [svg, add] = drawing(width, rows * high + 24, `${name} of ${rows} groups; the table above holds the figures`);
      add("text", { x: left, y: 14, class: "head" }, name);
      ends.forEach(([value, from, to], r) => {
        const y = 24 + r * high, key = answer.rows[r].slice(0, answer.groups).map((part) => (part === null ? "–" : String(part))).join(", ");
        add("text", { x: left - 6, y: y + 12, "text-anchor": "end" }, key.length > 18 ? `${key.slice(0, 9)}…${key.slice(-8)}` : key);
        if (typeof value !== "number") return;
        add("rect", { class: "bar", x: Math.min(x(0), x(value)), y: y + 2, width: Math.abs(x(value) - x(0)), height: high - 5 });
        if (typeof from === "number" && typeof to === "number") add("path", { class: "path", d: `M${x(from)} ${y + high / 2}H${x(to)}` });
        add("text", { x: Math.max(x(value), typeof to === "number" ? x(to) : 0, x(0)) + 4, y: y + 12 }, shown(value, forms[c]));
      });
      return svg;
    });
  }

  // One figure, or of a histogram one line per bin; its interval stands below, that of a bin beside it.
  function figure(value, low, high, limits, form) {
    const cell = make("td", undefined, { class: "number" });
    const bins = Array.isArray(value);
    (bins ? value : [value]).forEach((one, i) => {
      const line = make("div", shown(one, form));
      const ends = bins ? [low && low[i], high && high[i]] : [low, high];
      if (limits && typeof one !== "string") line.append(make("span", interval(...ends, form), { class: bins ? "beside" : "between" }));
      cell.append(line);
    });
    return cell;
  }

  function interval(low, high, form) {
    return low === null || high === null ? "no limits" : `${shown(low, form)} to ${shown(high, form)}`;
  }

  async function estimate() {
    say("Reckoning …");
    const found = await call("dry-run", question());
    const cost = found.cached ? "You asked this before: it costs nothing" : `It would cost ${price(found.cost)}`;
    const left = found.remaining ? `; you have ${price(found.remaining)}` : "";
    result("What it would cost", `${cost}${left}.${found.affordable ? "" : " Your budget does not cover it."}`, found.notes);
    const errors = Object.entries(found.errors);
    if (errors.length) {
      const rows = errors.map(([name, error]) => {
        const line = make("tr");
        line.append(make("th", name, { scope: "row" }), make("td", error === null ? "not known beforehand" : `± ${shown(error)}`, { class: "number" }));
        return line;
      });
      const body = make("tbody");
      body.append(...rows);
      at("caption").textContent = found.confidence ? `Expected error, ${shown(found.confidence * 100)} % sure.` : "";
      at("figures").replaceChildren(body);
    }
    say("Nothing was spent.");
    at("result").focus();
  }

  at("sign-in").addEventListener("submit", (event) => { event.preventDefault(); busy(open); });
  at("ask").addEventListener("submit", (event) => { event.preventDefault(); busy(ask); });
  at("estimate").addEventListener("click", () => { if (at("ask").reportValidity()) busy(estimate); });
  at("sql").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) at("ask").requestSubmit();
  });
})();
