"""Pages as a browser has them after their scripts ran."""

import json
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest

from tests.effort import PATIENCE_S

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

# The page stands in a frame and is acted upon from outside, so that it keeps its policy and has any width.
_AROUND = """<!DOCTYPE html><html><body><iframe id="frame" width="{width}" height="900" srcdoc="{page}"></iframe>
<pre id="found">none</pre><script>
const frame = document.getElementById("frame");
frame.addEventListener("load", () => {{
  const view = frame.contentWindow, page = frame.contentDocument, root = page.documentElement;
  const all = selector => [...page.querySelectorAll(selector)];
  const one = selector => page.querySelector(selector);
  const at = (element, x, y, more) => {{
    const box = element.getBoundingClientRect();
    const place = {{clientX: box.left + box.width * x, clientY: box.top + box.height * y}};
    return {{...place, bubbles: true, cancelable: true, ...more}};
  }};
  const pointer = (element, kind, x, y, more) =>
    element.dispatchEvent(new view.PointerEvent(kind, at(element, x, y, more)));
  const key = (element, name) => element.dispatchEvent(new view.KeyboardEvent("keydown", {{key: name, bubbles: true}}));
  document.getElementById("found").textContent = JSON.stringify((() => {{ {actions} }})());
}});
</script></body></html>"""


def browsed(page: Path, profile: Path) -> tuple[str, str]:
    """The document as a browser has it after running its scripts, and what it logged."""
    done = subprocess.run(
        [
            str(CHROMIUM),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1400,1000",
            f"--user-data-dir={profile}",
            "--enable-logging=stderr",
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    return done.stdout, done.stderr


def acted(page: str, actions: str, folder: Path, width: int = 1200) -> Any:
    """What JavaScript `actions` return that act on a page of some width in CSS pixels; fails where anything is logged.

    They know `page` (its document), `root`, `view` (its window), `one` and `all` for selectors, `pointer(element, kind,
    x, y, more)` with shares of its width and height, and `key(element, name)`.
    """
    around = folder / "around.html"
    around.write_text(_AROUND.format(width=width, page=escape(page), actions=actions), encoding="utf-8")
    dom, log = browsed(around, folder / "profile")
    assert "CONSOLE" not in log, log
    found = dom.partition('<pre id="found">')[2].partition("</pre>")[0]
    return json.loads(unescape(found))
