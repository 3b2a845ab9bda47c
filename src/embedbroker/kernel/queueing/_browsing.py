"""Browsers of a queue: readers that receive what waits, and take nothing."""

from __future__ import annotations

from ._backlog import Backlog
from ._consumer import Consumer

__all__ = ["is_done", "show"]


def show(browser: Consumer, backlog: Backlog, budget: int) -> int:
    """Show a browser what it has not seen, as far as its credit and the budget go; return the rest of the budget."""
    matches = browser.selector.matches if browser.selector is not None else None
    while browser.ready and budget > 0:
        reference, budget = backlog.browse(browser.cursor, budget)
        if reference is None:
            break
        if matches is None or matches(reference.message):
            # Looking is no delivery: the count stays, 0 for a message that no consumer was given.
            browser.credit.left -= browser.port.deliver(browser, reference)
    if browser.backpressure.is_shut:
        browser.backpressure.wait(browser)
    return budget


def is_done(browser: Consumer, budget: int) -> bool:
    """Return True if a browser that requested a marker has been shown everything that it can be shown now."""
    return budget > 0 and browser.marker is not None and not browser.backpressure.is_shut
