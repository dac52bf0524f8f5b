// Pictures over time: what they show is told where one points, and those with the same `data-axis` zoom together.
const FULL = 1000; // width of every picture
const LEAST = 1; // the narrowest piece of it
const sizes = [[86400, "d", 2], [3600, "h", 2], [60, "min", 2], [1, "s", 1], [1e-3, "ms", 1], [1e-6, "us", 1], [1e-9, "ns", 1]];
// Four digits, or as many as tell two moments apart that lie `grain` seconds from each other.
const time = (s, grain) => {
  const [size, unit] = sizes.find(([size, , from]) => Math.abs(s) >= size * from) || [1, "s"];
  const digits = grain ? Math.min(Math.max(Math.ceil(-Math.log10(grain / size)), 0), 9) : 0;
  return (grain ? Number((s / size).toFixed(digits)) : Number((s / size).toPrecision(4))) + " " + unit;
};
const amount = (value, unit) => {
  if (unit !== "B" && unit !== "B/s") return Number(value.toPrecision(3)) + (unit ? " " + unit : "");
  const power = Math.min(Math.max(Math.floor(Math.log10(Math.abs(value) || 1) / 3), 0), 5);
  return Number((value / 1000 ** power).toPrecision(3)) + " " + ["", "k", "M", "G", "T", "P"][power] + unit;
};

// Marks of round times from one moment to another, in one unit; as `scales.marks` makes them.
const marked = (axis, begin, end) => {
  const [size, unit] = sizes.find(([size, , from]) => Math.abs(end) >= size * from) || [1, "s"];
  const rough = (end - begin) / size / 6, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 2.5, 5, 10].find(one => one * power >= rough * (1 - 1e-9));
  const digits = Math.max(-Math.floor(Math.log10(step) + 1e-9), 0) + (Math.abs(step / power - 2.5) < 1e-6 ? 1 : 0);
  const made = [];
  for (let i = Math.ceil(begin / size / step - 1e-9); i * step <= end / size + step * 1e-9; i++) {
    const share = (i * step * size - begin) / (end - begin), x = 100 * share + "%";
    const text = document.createElementNS(axis.namespaceURI, "text"), line = document.createElementNS(axis.namespaceURI, "line");
    set(text, { x, y: 14, "text-anchor": share < .04 ? "start" : share > .96 ? "end" : "middle" });
    text.textContent = (i * step).toFixed(digits) + " " + unit;
    set(line, { x1: x, x2: x, y1: 0, y2: 4 });
    made.push(line, text);
  }
  return made;
};

// A path of straight lines as points, and its height at a place by going from point to point.
const pointsOf = path => {
  const points = [];
  let x = 0, y = 0;
  for (const [, letter, a, b] of path.getAttribute("d").matchAll(/([MLHV])([-\d.]+)(?: ([-\d.]+))?/g)) {
    if (letter === "V") y = Number(a); else { x = Number(a); if (letter !== "H") y = Number(b); }
    points.push([x, y]);
  }
  return points;
};
const heightAt = (points, x) => {
  let low = 0, high = points.length;
  while (low < high) { const middle = (low + high) >> 1; if (points[middle][0] <= x) low = middle + 1; else high = middle; }
  const before = points[low - 1], after = points[low];
  if (!before || (!after && x > before[0])) return null; // the curve begins later or has ended
  return after ? before[1] + (after[1] - before[1]) * (x - before[0]) / (after[0] - before[0]) : before[1];
};

// Rows are lists of (pause before, length, text, microbatch): times in parts of the window, texts by number.
const unpacked = flat => {
  const boxes = [];
  for (let at = 0, i = 0; i < flat.length; i += 4) {
    boxes.push([at + flat[i], at + flat[i] + flat[i + 1], flat[i + 2], flat[i + 3]]);
    at += flat[i] + flat[i + 1];
  }
  return boxes;
};

const drawnIn = (plot, name, look) => {
  const element = document.createElementNS(plot.namespaceURI, name);
  element.setAttribute("class", look);
  plot.append(element);
  return element;
};
const set = (element, attributes) => { for (const name in attributes) element.setAttribute(name, attributes[name]); };

// Says which operation lies under the pointer, and marks it.
const operations = plot => {
  const data = JSON.parse(document.getElementById(plot.dataset.rows).textContent);
  const rows = data.rows.map(row => row.lanes.map(unpacked));
  const { y: top, height } = plot.viewBox.baseVal;
  const mark = drawnIn(plot, "rect", "mark");
  const seconds = part => data.begin + (data.end - data.begin) * part / data.parts;
  return (x, event, width, grain) => {
    set(mark, { width: 0, height: 0 });
    if (x === null) return "";
    const box = plot.getBoundingClientRect(), part = x / FULL * data.parts;
    const high = (height + top) / rows.length;
    const level = Math.min(Math.max(((event.clientY - box.top) / box.height * height + top) / high, 0), rows.length - .001);
    const row = Math.floor(level), beside = rows[row].length > 1 && level - row > .7 ? 1 : 0;
    const near = data.parts * width / FULL / 400; // what is thinner than the pointer is found all the same
    const found = rows[row][beside].find(([begin, end]) => begin <= part && part < Math.max(end, begin + near));
    if (!found) return data.rows[row].name + ": idle";
    const [begin, end, text, microbatch] = found;
    const y = row * high + (beside ? .7 * high : 0), tall = rows[row].length > 1 ? (beside ? .3 : .7) * high : high;
    set(mark, { x: begin / data.parts * FULL, y, width: (end - begin) / data.parts * FULL, height: tall });
    const took = seconds(end) - seconds(begin), fine = Math.min(grain, took / 50) || grain;
    const cut = (begin === 0 && data.begin > 0) || (end >= data.parts && data.cut);
    const what = data.texts[text], who = data.rows[row].name;
    return `${what}${microbatch < 0 ? "" : `, microbatch ${microbatch}`}\n${what.endsWith(who) ? "" : who + "\n"}`
      + `begin ${time(seconds(begin), fine)}\nend ${time(seconds(end), fine)}\nduration ${time(took)}${cut ? " inside this piece" : ""}`;
  };
};

// Says how high the curves of a plot are at a moment.
const levels = (plot, name) => {
  const curves = [...plot.querySelectorAll("path.series")].map(path => [path.dataset.name || name, pointsOf(path)]);
  const { height } = plot.viewBox.baseVal, top = Number(plot.dataset.top), unit = plot.dataset.unit || "";
  return x => x === null ? "" : curves.map(([what, points]) => {
    const y = heightAt(points, x);
    return y === null ? "" : `${what}: ${amount(Math.max(top * (1 - y / height), 0), unit)}`;
  }).filter(Boolean).join("; ");
};

const views = new Map();
document.querySelectorAll(".timeline").forEach((part, index) => {
  const key = part.dataset.axis || "fixed " + index;
  if (!views.has(key)) views.set(key, { begin: Number(part.dataset.begin), end: Number(part.dataset.end), zooms: Boolean(part.dataset.axis), unit: part.dataset.unit || "s", parts: [] });
  views.get(key).parts.push(part);
});

views.forEach(view => {
  const plots = view.parts.flatMap(part => [...part.querySelectorAll("svg.plot")]);
  const axes = view.parts.flatMap(part => [...part.querySelectorAll(".axis[data-zooms]")]).map(axis => [axis, [...axis.childNodes]]);
  const outputs = view.parts.flatMap(part => [...part.querySelectorAll("output")]);
  const length = view.end - view.begin;
  let left = 0, width = FULL;

  const seconds = x => view.begin + length * x / FULL;
  const place = (x, grain) => view.unit === "s" ? time(seconds(x), grain) : amount(seconds(x), view.unit);
  const redraw = () => {
    width = Math.min(Math.max(width, LEAST), FULL);
    left = Math.min(Math.max(left, 0), FULL - width);
    const grain = length * width / FULL / 400, all = width === FULL;
    plots.forEach(plot => {
      const { y, height } = plot.viewBox.baseVal;
      plot.setAttribute("viewBox", `${left} ${y} ${width} ${height}`);
      plot.classList.toggle("near", width < FULL / 4);
    });
    axes.forEach(([axis, whole]) => axis.replaceChildren(...(all ? whole : marked(axis, seconds(left), seconds(left + width)))));
    const told = all ? "" : `${time(seconds(left), grain)} to ${time(seconds(left + width), grain)}`;
    outputs.forEach(output => { output.textContent = told; });
  };
  const zoom = (factor, share) => {
    const next = Math.min(Math.max(width * factor, LEAST), FULL);
    left += (width - next) * share;
    width = next;
    redraw();
  };
  const move = share => { left += width * share; redraw(); };
  const actions = { in: () => zoom(.5, .5), out: () => zoom(2, .5), left: () => move(-.5), right: () => move(.5), all: () => zoom(FULL, 0) };
  const keys = { "+": "in", "=": "in", "-": "out", "_": "out", ArrowLeft: "left", ArrowRight: "right", "0": "all", Home: "all" };
  view.parts.forEach(part => part.querySelectorAll("button[data-do]").forEach(button => {
    button.addEventListener("click", actions[button.dataset.do]);
  }));

  const cursors = plots.map(plot => drawnIn(plot, "path", "cursor"));
  const point = x => plots.forEach((plot, i) => {
    const { y, height } = plot.viewBox.baseVal;
    set(cursors[i], { d: x === null ? "" : `M${x} ${y}v${height}` });
  });

  plots.forEach(plot => {
    const title = plot.querySelector("title"), name = title ? title.textContent : "";
    if (title) title.remove(); // browsers would show it over our own words
    plot.setAttribute("aria-label", name);
    const tell = plot.dataset.rows ? operations(plot) : plot.dataset.top ? levels(plot, name) : () => "";
    const at = event => {
      const box = plot.getBoundingClientRect();
      return Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
    };
    const placed = event => left + at(event) * width;
    plot.classList.add("live");
    const leave = () => { show(""); point(null); tell(null); };
    plot.addEventListener("pointerleave", leave);
    const say = event => {
      const x = placed(event), grain = length * width / FULL / 1000;
      const told = tell(x, event, width, grain);
      show(told.includes("\n") ? told : `${told || name}\nat ${place(x, grain)}`, event);
      point(x);
    };
    if (!view.zooms) { plot.addEventListener("pointermove", say); return; }

    set(plot, { tabindex: 0, role: "application", "aria-roledescription": "chart that zooms", "aria-label": name + "; plus and minus zoom, arrows move, 0 shows all", "aria-keyshortcuts": "+ - ArrowLeft ArrowRight 0" });
    plot.addEventListener("keydown", event => {
      const action = event.ctrlKey || event.metaKey || event.altKey ? undefined : keys[event.key];
      if (action) { event.preventDefault(); actions[action](); }
    });
    // A wheel alone scrolls the page; a pinch on a touchpad comes as a wheel with Ctrl.
    plot.addEventListener("wheel", event => {
      const aside = Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : event.shiftKey ? event.deltaY : 0;
      if (event.ctrlKey || event.metaKey) zoom(event.deltaY < 0 ? .8 : 1.25, at(event));
      else if (aside && width < FULL) move(aside / plot.getBoundingClientRect().width);
      else return;
      event.preventDefault();
    }, { passive: false });
    plot.addEventListener("dblclick", event => zoom(event.shiftKey ? 4 : .25, at(event)));

    const fingers = new Map();
    let grabbed = null, chosen = null; // what lay under the first finger, and where a choice with Shift began
    const frame = drawnIn(plot, "rect", "chosen");
    const grab = () => {
      const [first, second] = [...fingers.values()];
      grabbed = first === undefined ? null : second === undefined ? { left, x: first }
        : { left, width, middle: (first + second) / 2, apart: Math.max(Math.abs(first - second), 10) };
    };
    plot.addEventListener("pointerdown", event => {
      fingers.set(event.pointerId, event.clientX);
      if (event.isTrusted) plot.setPointerCapture(event.pointerId);
      chosen = event.shiftKey && fingers.size === 1 ? placed(event) : null;
      grab();
      say(event);
    });
    const drop = event => {
      if (chosen !== null && event.type === "pointerup") {
        const other = placed(event), across = Math.abs(other - chosen);
        if (across > width / 200) { left = Math.min(chosen, other); width = across; redraw(); }
      }
      chosen = null;
      set(frame, { width: 0, height: 0 });
      fingers.delete(event.pointerId);
      grab();
      if (event.pointerType === "touch" && !fingers.size) leave();
    };
    plot.addEventListener("pointerup", drop);
    plot.addEventListener("pointercancel", drop);
    plot.addEventListener("pointermove", event => {
      if (fingers.has(event.pointerId)) fingers.set(event.pointerId, event.clientX);
      const box = plot.getBoundingClientRect(), { y, height } = plot.viewBox.baseVal;
      if (chosen !== null) {
        const other = placed(event);
        set(frame, { x: Math.min(chosen, other), y, width: Math.abs(other - chosen), height });
      } else if (grabbed && fingers.size > 1) {
        const [first, second] = [...fingers.values()];
        const where = grabbed.left + (grabbed.middle - box.left) / box.width * grabbed.width;
        width = Math.min(Math.max(grabbed.width * grabbed.apart / Math.max(Math.abs(first - second), 10), LEAST), FULL);
        left = where - ((first + second) / 2 - box.left) / box.width * width;
        redraw();
      } else if (grabbed && Math.abs(event.clientX - grabbed.x) > 3) {
        left = grabbed.left - (event.clientX - grabbed.x) / box.width * width;
        redraw();
      }
      say(event);
    });
  });
});
