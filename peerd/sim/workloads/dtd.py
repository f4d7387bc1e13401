"""Descriptions of XML documents, in the manner of a DTD: which elements there are, and what may be in them.

The paper took "real-life document types" without naming them (paper 2, section 5). These two are our own: one is small,
one is news-like and of the size of what the paper's authors used elsewhere.

A description has a line per element: its children, the likeliest first, each with `?` (may be there), `*` (any number),
`+` (one or more) or nothing (always); its attributes as `@name=value|value`; and, for a leaf, the values of its text
after `:`. Where values are many, the first are the likeliest.
"""

from typing import Final

import msgspec


class Part(msgspec.Struct, frozen=True):
    """A child of an element, and how often it occurs."""

    name: str
    occurs: str = ""


class Element(msgspec.Struct, frozen=True):
    name: str
    children: tuple[Part, ...] = ()
    attributes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    values: tuple[str, ...] = ()


class Dtd(msgspec.Struct, frozen=True):
    root: str
    elements: dict[str, Element]


def described(text: str) -> Dtd:
    """Read a description; the first element is the root."""
    elements: dict[str, Element] = {}
    for line in text.strip().splitlines():
        head, _, values = line.partition(":")
        name, *words = head.split()
        attributes = [word[1:].partition("=") for word in words if word.startswith("@")]
        elements[name] = Element(
            name,
            tuple(Part(word.rstrip("?*+"), word[len(word.rstrip("?*+")) :]) for word in words if word[0] != "@"),
            tuple((key, tuple(choices.split("|"))) for key, _, choices in attributes),
            tuple(values.split()),
        )
    missing = {part.name for each in elements.values() for part in each.children} - elements.keys()
    if missing:
        raise ValueError(f"elements without a description: {', '.join(sorted(missing))}")
    return Dtd(next(iter(elements)), elements)


QUOTES: Final = described("""
quotes stock+ market? @day=mon|tue|wed|thu|fri
stock symbol price? volume? range? halted? @currency=EUR|USD|GBP
symbol : OTE ALPHA PPC EYDAP COSMOTE INTRALOT
price : 8 9 10 11 12
volume : 100 200 500 1000
range high low?
high : 9 10 11 12 13
low : 7 8 9
halted
market exchange phase?
exchange : ATHEX NYSE LSE NASDAQ
phase : open auction closed
""")

NEWS: Final = described("""
news head? body? media* links? rights? review?
head title? meta* pubdata? docdata? keywords? urgency? @lang=en|de|fr|el
title main? short? alternative?
main
short
alternative @lang=de|fr|el
meta name? content? scheme?
name : source topic place person
content
scheme : iptc local
pubdata issue? edition? section? date?
issue
edition : morning evening weekend
section : politics sports business culture science
date
docdata created? expires? version? origin? fixture?
created
expires
version : 1 2 3
origin : agency staff reader
fixture
keywords keyword* subject*
keyword : election football markets climate film energy health court weather travel
subject @code=01|02|03|04|05
urgency : 1 2 3 4 5
body lead? block* byline? dateline? quote* table? note* correction?
lead p? summary?
summary
block p* heading? list? picture? quote? inset?
p emphasis* person? place? organisation? money? link?
emphasis
person : Papandreou Merkel Smith Rossi
place : Athens Paris Sophia Neuchatel London
organisation : UN EU ECB FIFA NATO
money @currency=EUR|USD
link @rel=story|archive|extern
heading
list item*
item p? link?
picture caption? credit? source? @size=small|large
caption p?
credit : Reuters AFP staff
source
quote p? speaker?
speaker person? function?
function
inset heading? p?
byline author* bureau?
author name? function?
bureau : Athens Brussels NewYork
dateline place? date?
table row* caption?
row cell*
cell : 1 2 3 4 5 6 7 8
note p? footnote?
footnote
correction p? date?
media picture? video? audio?
video source? duration? caption?
duration
audio source? duration?
links link* related?
related item*
rights holder? licence? territory?
holder : agency author publisher
licence : free paid restricted
territory : world EU US
review rating? reviewer? work?
rating : 1 2 3 4 5
reviewer person?
work title? creator?
creator person?
""")
