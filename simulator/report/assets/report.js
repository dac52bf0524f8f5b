"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("scripted");
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.getElementById("theme").addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; });
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(d => { d.open = true; }));

  const tip = document.getElementById("tip");
  const units = [[1, "s"], [1e-3, "ms"], [1e-6, "us"], [1e-9, "ns"]];
  const time = s => {
    const [size, unit] = units.find(u => Math.abs(s) >= u[0]) || [1, "s"];
    return Number((s / size).toPrecision(4)) + " " + unit;
  };
  const show = (text, event) => {
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 4)) + "px";
    tip.style.top = (event.clientY + box.height + 24 > innerHeight ? event.clientY - box.height - 12 : event.clientY + 16) + "px";
  };

  document.querySelectorAll("svg.scatter").forEach(plot => {
    const say = event => show(event.target.dataset.tip || "", event);
    plot.addEventListener("pointermove", say);
    plot.addEventListener("pointerdown", say);
    plot.addEventListener("pointerleave", () => show(""));
  });

  document.querySelectorAll("table.sortable").forEach(table => {
    const heads = [...table.tHead.rows[0].cells];
    const value = (row, column) => {
      const { dataset, textContent } = row.cells[column];
      return dataset.v === undefined ? textContent : Number(dataset.v);
    };
    // What is missing comes last, whichever way is up.
    const order = (a, b, sign) => a === b ? 0 : a === "" ? 1 : b === "" ? -1
      : sign * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
    heads.forEach((head, column) => {
      const sort = () => {
        const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        heads.forEach(other => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
        const rows = [...table.tBodies[0].rows];
        rows.sort((a, b) => order(value(a, column), value(b, column), sign));
        table.tBodies[0].append(...rows);
      };
      head.tabIndex = 0;
      head.addEventListener("click", sort);
      head.addEventListener("keydown", event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sort(); } });
    });
  });
  const filter = document.getElementById("filter");
  if (filter) filter.addEventListener("input", () => {
    const wanted = filter.value.toLowerCase();
    for (const row of document.getElementById("rows").tBodies[0].rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });

  document.querySelectorAll("[data-chart]").forEach(figure => {
    const data = JSON.parse(document.getElementById(figure.dataset.chart).textContent);
    const plot = figure.querySelector("svg");
    const marks = [...figure.querySelectorAll(".axis span")];
    const { y: top, height } = plot.viewBox.baseVal;
    let left = 0, width = 1000;
    // Rows are lists of (pause before, length, text): times in parts of the window, texts by number.
    const lanes = data.rows.map(row => row.lanes.map(flat => {
      const boxes = [];
      for (let at = 0, i = 0; i < flat.length; i += 3) {
        boxes.push([at + flat[i], at + flat[i] + flat[i + 1], flat[i + 2]]);
        at += flat[i] + flat[i + 1];
      }
      return boxes;
    }));
    const seconds = part => data.begin + (data.end - data.begin) * part / data.parts;
    const redraw = () => {
      width = Math.min(Math.max(width, 1), 1000);
      left = Math.min(Math.max(left, 0), 1000 - width);
      plot.setAttribute("viewBox", `${left} ${top} ${width} ${height}`);
      marks.forEach((mark, i) => {
        mark.textContent = time(seconds((left + width * i / (marks.length - 1)) / 1000 * data.parts));
      });
    };
    const zoom = (factor, where) => {
      const next = Math.min(Math.max(width * factor, 1), 1000);
      left += (width - next) * where;
      width = next;
      redraw();
    };
    const actions = { "in": () => zoom(.5, .5), "out": () => zoom(2, .5), left: () => { left -= width / 2; redraw(); },
      right: () => { left += width / 2; redraw(); }, all: () => zoom(1e9, 0) };
    figure.querySelectorAll("button[data-do]").forEach(button => button.addEventListener("click", actions[button.dataset.do]));
    plot.addEventListener("wheel", event => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const box = plot.getBoundingClientRect();
      zoom(event.deltaY < 0 ? .8 : 1.25, (event.clientX - box.left) / box.width);
    }, { passive: false });
    let dragged = null;
    plot.addEventListener("pointerdown", event => { dragged = [event.clientX, left]; plot.setPointerCapture(event.pointerId); });
    plot.addEventListener("pointerup", () => { dragged = null; });
    plot.addEventListener("pointercancel", () => { dragged = null; });
    plot.addEventListener("pointerleave", () => show(""));
    plot.addEventListener("pointermove", event => {
      const box = plot.getBoundingClientRect();
      if (dragged && Math.abs(event.clientX - dragged[0]) > 3) {
        left = dragged[1] - (event.clientX - dragged[0]) / box.width * width;
        redraw();
      }
      const part = (left + (event.clientX - box.left) / box.width * width) / 1000 * data.parts;
      const level = ((event.clientY - box.top) / box.height * height + top) / (height + top) * lanes.length;
      const row = Math.min(Math.max(Math.floor(level), 0), lanes.length - 1);
      const beside = lanes[row].length > 1 && level - row > .7 ? 1 : 0;
      const found = lanes[row][beside].find(b => b[0] <= part && part < Math.max(b[1], b[0] + data.parts * width / 4e5));
      const what = found ? `${data.texts[found[2]]}: ${time(seconds(found[0]))} to ${time(seconds(found[1]))} (${time(seconds(found[1]) - seconds(found[0]))})`
        : `nothing at ${time(seconds(part))}`;
      show(`${data.rows[row].name} · ${what}`, event);
    });
    plot.classList.add("live");
  });
})();
