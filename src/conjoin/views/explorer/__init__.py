"""The explorer: one HTML file that holds a model and answers questions about it in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conjoin.lazy_imports import lazy_names

if TYPE_CHECKING:
    from conjoin.views.explorer.explorer_page import Explorer as Explorer
    from conjoin.views.explorer.explorer_page import explore as explore

__getattr__, __dir__, __all__ = lazy_names(__name__)
