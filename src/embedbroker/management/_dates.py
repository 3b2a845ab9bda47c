"""Times in the forms of Java, as Artemis' management shows them: in UTC, and in the locale of the United States.

Does not depend on what happened at a time.
"""

from __future__ import annotations

__all__ = ["date_text", "moment_text", "time_text"]

_DAY_S = 24 * 60 * 60
_SECOND_MS = 1000
_WEEKDAYS = ("Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _calendar(day: int) -> tuple[int, int, int]:
    """Return year, month and day of the month of a day since 1970.

    The year begins in March, so that the day which some years lack is its last one.
    """
    era, of_era = divmod(day + 719_468, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + 400 * era + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


def _clock(ms: int) -> tuple[int, int, int, int]:
    """Return the day since 1970, hour, minute and second of a time."""
    day, second = divmod(ms // _SECOND_MS, _DAY_S)
    minute, seconds = divmod(second, 60)
    hour, minutes = divmod(minute, 60)
    return day, hour, minutes, seconds


def date_text(day: int) -> str:
    """Return a day since 1970 in the short form, such as ``11/26/26``."""
    year, month, of_month = _calendar(day)
    return f"{month}/{of_month}/{year % 100:02}"


def moment_text(ms: int) -> str:
    """Return a time in the medium form, such as ``11/26/26, 1:05:09 PM``."""
    day, hour, minute, second = _clock(ms)
    return f"{date_text(day)}, {(hour - 1) % 12 + 1}:{minute:02}:{second:02} {'AM' if hour < 12 else 'PM'}"


def time_text(ms: int) -> str:
    """Return a time in the form of `java.util.Date`, such as ``Thu Nov 26 13:05:09 UTC 2026``."""
    day, hour, minute, second = _clock(ms)
    year, month, of_month = _calendar(day)
    weekday = _WEEKDAYS[day % 7]
    return f"{weekday} {_MONTHS[month - 1]} {of_month:02} {hour:02}:{minute:02}:{second:02} UTC {year:04}"
