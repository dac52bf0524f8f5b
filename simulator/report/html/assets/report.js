const root = document.documentElement;
root.classList.add("scripted");
const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
document.getElementById("theme").addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; });

// Paper shows what is folded away; afterwards the page is as it was.
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  folded.forEach(one => { one.open = true; });
});
addEventListener("afterprint", () => { folded.forEach(one => { one.open = false; }); folded = []; });

const tip = document.getElementById("tip");
const show = (text, event) => {
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 4)) + "px";
  tip.style.top = (event.clientY + box.height + 24 > innerHeight ? event.clientY - box.height - 12 : event.clientY + 16) + "px";
};
addEventListener("keydown", event => { if (event.key === "Escape") show(""); });
addEventListener("scroll", () => show(""), { passive: true });

document.querySelectorAll("svg.scatter").forEach(plot => {
  const say = event => show(event.target.dataset.tip || "", event);
  plot.addEventListener("pointermove", say);
  plot.addEventListener("pointerdown", say);
  plot.addEventListener("pointerleave", () => show(""));
});
