"""CloudWatch's filter patterns of terms: all of them, any of them (`?`), or none (`-`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

# A sign, and a word or a phrase in double quotes.
TERM = re.compile(
    r'\s*(?P<sign>[?-]?)(?:"(?P<phrase>(?:[^"\\]|\\.)+)"|(?P<word>\w+))(?=\s|$)', re.ASCII
)
OTHER_KINDS = {"{": "of JSON", "[": "of columns", "%": "with regular expressions"}


class PatternError(ValueError):
    """A pattern that CloudWatch refuses, or that the local cloud does not know."""


@dataclass(frozen=True)
class Term:
    """A whole word, as words of letters, digits and `_`, or a phrase anywhere."""

    sign: str
    text: str
    is_word: bool

    def within(self, message: str) -> bool:
        if self.text not in message:
            return False
        whole = rf"(?<!\w){self.text}(?!\w)"
        return not self.is_word or re.search(whole, message, re.ASCII) is not None


@dataclass(frozen=True)
class Pattern:
    """The terms of a pattern; without any, it matches everything."""

    terms: tuple[Term, ...]
    is_any: bool = False

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """Raise PatternError for other patterns, and those that mix `?` with other terms."""
        if kind := OTHER_KINDS.get(text.lstrip()[:1]):
            raise PatternError(f"The local cloud has no filter patterns {kind}: {text!r}")
        terms, position, end = [], 0, len(text.rstrip())
        while position < end:
            match = TERM.match(text, position)
            if match is None:
                raise PatternError("Invalid filter pattern")
            word = match["word"]
            phrase = re.sub(r"\\(.)", r"\1", match["phrase"] or "")
            terms.append(Term(match["sign"], word or phrase, word is not None))
            position = match.end()
        if len({term.sign == "?" for term in terms}) > 1:
            raise PatternError(f"The local cloud does not mix ? with other terms: {text!r}")
        return cls(tuple(terms), any(term.sign == "?" for term in terms))

    def matches(self, message: str) -> bool:
        if self.is_any:
            return any(term.within(message) for term in self.terms)
        return all(term.within(message) == (term.sign != "-") for term in self.terms)
