"""Configuration of the documentation site: Sphinx, furo, MyST, and the pages that are written by the program itself."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import simulator  # noqa: E402 - only found after the path is set

project = "clustersim"
author = "the clustersim authors"
copyright = "the clustersim authors, Apache-2.0"
version = release = simulator.__version__

extensions = ["myst_parser", "sphinx.ext.mathjax", "written_by_program"]
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
suppress_warnings: list[str] = []
nitpicky = True
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"clustersim {version}"
html_copy_source = False
html_show_sphinx = False
