"""Configuration of the documentation site: Sphinx, furo, MyST, notebooks, and the pages that the program writes."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from fingerprint import fingerprint  # noqa: E402 - only found after the path is set

import simulator  # noqa: E402

project = "clustersim"
author = "the clustersim authors"
copyright = "the clustersim authors, Apache-2.0"
version = release = simulator.__version__

extensions = ["myst_nb", "mathml", "written_by_program"]
html_math_renderer = "mathml"
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
suppress_warnings: list[str] = []
nitpicky = True
exclude_patterns = ["_build"]

# Notebooks are text without outputs. A kernel of this environment runs them, with the simulator that is beside these
# pages; outputs are kept until the notebook, the simulator or its data change. A cell that fails, or runs longer than
# its notebook allows, is a warning with its traceback, and `make docs` fails on warnings.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(HERE.parent), os.environ.get("PYTHONPATH"))))
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "_build" / "notebooks" / fingerprint())
nb_execution_show_tb = True
nb_execution_timeout = 60
nb_output_stderr = "remove"  # libraries chat there when they are loaded first

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_title = f"clustersim {version}"
html_copy_source = False
html_show_sphinx = False
