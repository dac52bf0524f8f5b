// Tables of class `sortable` sort by the column whose heading is chosen.
const valueOf = (row, column) => {
  const { dataset, textContent } = row.cells[column];
  return dataset.v === undefined ? textContent.trim() : Number(dataset.v);
};
// What is missing comes last, whichever way is up.
const missing = value => value === "" || value === "-";
const compared = (a, b, sign) => a === b ? 0 : missing(a) ? 1 : missing(b) ? -1
  : sign * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));

document.querySelectorAll("table.sortable").forEach(table => {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    if (head.classList.contains("bar")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.title = "sort by " + head.textContent;
    button.append(...head.childNodes);
    head.append(button);
    head.addEventListener("click", () => {
      const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => compared(valueOf(a, column), valueOf(b, column), sign));
      table.tBodies[0].append(...rows);
    });
  });
});

const filter = document.getElementById("filter");
if (filter) filter.addEventListener("input", () => {
  const wanted = filter.value.toLowerCase();
  for (const row of document.getElementById("rows").tBodies[0].rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
});
