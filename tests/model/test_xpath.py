"""XPath interests: what is understood and what is refused, matching against libxml2, containment against documents."""

from collections.abc import Iterator
from itertools import cycle
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lxml import etree

from peerd.sim.workloads import DOCUMENTS
from protocols.model.event import Body, encode_body
from protocols.model.interest import Interest, enclosing, intersection, is_sound
from protocols.model.interest import contains as interest_contains
from protocols.model.schema import Schema
from protocols.model.xpath.compiled import compile_xpath
from protocols.model.xpath.contain import contains
from protocols.model.xpath.document import Document, document_of, is_xml, read
from protocols.model.xpath.embed import matcher
from protocols.model.xpath.normal import joined
from protocols.model.xpath.parse import XPathError, canonical, parse
from protocols.model.xpath.pattern import NODES_MAX, PATTERN_MAX, Node, text

SCHEMA = Schema.from_toml("[attributes.x]\ntype = 'int'\nmin = 0\nmax = 99\n")

# --- Small documents and patterns, so that they meet ------------------------------------------------------------------

LABELS = "abc"
values = st.sampled_from([None, None, None, "1", "2"])


def element(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def written(label: str, attribute: str | None, inner: list[str], value: str | None) -> str:
        start = label if attribute is None else f"{label} k='{attribute}'"
        return f"<{start}>{''.join(inner) or value or ''}</{label}>"

    return st.builds(written, st.sampled_from(LABELS), values, st.lists(children, max_size=3), values)


xml = st.recursive(element(st.just("")), element, max_leaves=12)


def step(children: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    attributes = st.builds(lambda value: Node("@k", "/", value), values)
    below = st.lists(st.one_of(children, children, attributes), max_size=2).map(_consistent)
    return st.builds(Node, st.sampled_from("abc*"), st.sampled_from(["/", "/", "//"]), values, below)


def _consistent(branches: list[Node]) -> tuple[Node, ...]:
    """No two attributes: they might contradict each other, which the parser refuses."""
    return tuple(each for n, each in enumerate(branches) if not each.is_attribute or n == 0)


raw_patterns = st.recursive(st.builds(Node, st.sampled_from("abc*")), step, max_leaves=5)
patterns = raw_patterns.map(lambda node: parse(text(node)))


def twin(pattern: str, document: str) -> bool:
    """libxml2's word."""
    return bool(etree.XPath(f"boolean({pattern})")(etree.fromstring(document)))


@given(patterns, xml)
@example(parse("/a[.//b]"), "<a><c><b></b></c></a>")
@example(parse("//a[.='12']"), "<a><b>1</b><b>2</b></a>")
def test_matching_agrees_with_libxml2(pattern: Node, document: str) -> None:
    assert matcher(pattern)(read(document.encode())) == twin(text(pattern), document)


@given(raw_patterns, xml)
@example(Node("a", "/", None, (Node("*", "//", None, (Node("b"),)),)), "<a><b></b></a>")
@example(Node("*", "//", None, (Node("*"),)), "<a></a>")
def test_normalising_changes_nothing_that_is_matched(pattern: Node, document: str) -> None:
    assert twin(text(pattern), document) == twin(canonical(text(pattern)), document)


@given(raw_patterns)
@example(Node("a", "/", None, (Node("*", "//", None, (Node("b"), Node("b", "/", None, (Node("c"),)))),)))
def test_the_canonical_form_is_its_own(pattern: Node) -> None:
    """Or others would take it for no pattern, and its owner would never be let into the tree. The example: a `*` that
    is only passed through when one of its two branches has turned out to be redundant."""
    written = canonical(text(pattern))
    assert canonical(written) == written


@given(patterns, patterns, xml)
@example(parse("/a/*"), parse("/a//b"), "<a><c><b></b></c></a>")
@example(parse("/a/*//b"), parse("/a//c/b"), "<a><c><b></b></c></a>")
def test_containment_is_never_claimed_wrongly(outer: Node, inner: Node, document: str) -> None:
    read_ = read(document.encode())
    if contains(outer, inner) and matcher(inner)(read_):
        assert matcher(outer)(read_)


def drawn(node: Node, further: Iterator[int]) -> str:
    """A document with an element for each node of a pattern, on the way to it so many more where the edge is `//`."""
    label = "z" if node.label == "*" else node.label
    inner = "".join(drawn(child, further) for child in node.children if not child.is_attribute)
    attributes = "".join(f" {child.label[1:]}='{child.value or ''}'" for child in node.children if child.is_attribute)
    more = next(further) if node.axis == "//" else 0
    return f"{'<z>' * more}<{label}{attributes}>{inner or node.value or ''}</{label}>{'</z>' * more}"


@given(patterns, patterns, st.lists(st.integers(0, 3), min_size=1, max_size=6))
@example(parse("/a/*//b"), parse("/a//b"), [0])
def test_containment_holds_on_the_documents_that_a_pattern_draws(outer: Node, inner: Node, further: list[int]) -> None:
    """Its canonical models (Miklau and Suciu), which refute most wrong claims that there can be."""
    read_ = read(drawn(inner, cycle(further)).encode())
    for each in (outer, joined(outer, inner)):
        if contains(each, inner) and matcher(inner)(read_):
            assert matcher(each)(read_)


@given(patterns, patterns, patterns)
@example(parse("/a/*"), parse("/a/*//c"), parse("/a//b/c"))
def test_containment_is_transitive(a: Node, b: Node, c: Node) -> None:
    """Paper, section 3: it "defines a partial order"; probes rely on it."""
    if contains(a, b) and contains(b, c):
        assert contains(a, c)


@given(patterns, patterns, xml)
def test_a_joined_pattern_contains_both(a: Node, b: Node, document: str) -> None:
    both, read_ = joined(a, b), read(document.encode())
    assert contains(both, a)
    assert contains(both, b)
    assert canonical(text(both)) == text(both)
    if matcher(a)(read_) or matcher(b)(read_):
        assert matcher(both)(read_)


@pytest.mark.parametrize("name", list(DOCUMENTS))
def test_matching_and_containment_on_the_workloads(name: str) -> None:
    workload = DOCUMENTS[name]
    interests = [parse(each.pattern) for each in workload.subscriptions(Random(1), 60)]
    documents = [each.xml for each in workload.documents(Random(2), 25)]
    found = {}
    for document in documents:
        read_ = read(document.encode())
        assert not read_.fault
        found[document] = [matcher(pattern)(read_) for pattern in interests]
        assert found[document] == [twin(text(pattern), document) for pattern in interests]
    for number, outer in enumerate(interests):
        for other, inner in enumerate(interests):
            if contains(outer, inner):
                assert all(hits[number] or not hits[other] for hits in found.values())


# --- The language -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("/stock[symbol='OTE']//price", "/stock[.//price][symbol[.='OTE']]"),
        ("/a/b/text()='x'", "/a[b[.='x']]"),
        ('/a[text()="it\'s"]', '/a[.="it\'s"]'),
        ("/a[@k]/b[@k='1' and c]", "/a[@k][b[@k='1'][c]]"),
        ("/a//*/b", "/a[*[.//b]]"),
        ("/a/*//b", "/a[*[.//b]]"),
        ("//*", "/*"),
        ("/a[b][b/c][.//c]", "/a[b[c]]"),
        ("/a[./b][.//b]", "/a[b]"),
        (" / a [ b ] ", "/a[b]"),
    ],
)
def test_canonical_text(source: str, expected: str) -> None:
    assert canonical(source) == expected
    assert canonical(expected) == expected


@pytest.mark.parametrize(
    ("source", "position"),
    [
        ("", 0),
        ("a/b", 0),
        ("/", 1),
        ("/a[", 3),
        ("/a]", 2),
        ("/a[//b]", 3),
        ("/a[1]", 3),
        ("/a[b or c]", 5),
        ("/a[position()=1]", 11),
        ("/child::a", 6),
        ("/x:a", 2),
        ("/a[b=c]", 5),
        ("/a//@k", 4),
        ("/a[text()]", 9),
        ("/a[.='1'][.='2']", 15),
        ("/a[@k='1'][@k='2']", 18),
        ("/a/..", 3),
        ("/a[.='\ud800']", 6),
        ("/a" * 600, PATTERN_MAX),
        ("/a" * (NODES_MAX + 1), 0),
        ("/a" + "[a" * 500, 0),
        ("/a" + "[a" * 340 + "]" * 340, 0),
    ],
)
def test_what_is_not_understood_is_refused_with_its_position(source: str, position: int) -> None:
    with pytest.raises(XPathError) as refused:
        parse(source)
    assert refused.value.position == position


def test_many_ways_to_fit_take_no_time() -> None:
    chain = "//" + "//".join("a" * (NODES_MAX - 1))
    assert not contains(parse(chain + "//b"), parse(chain))


@given(st.text(alphabet="/*[]@.='ab() \"and", max_size=30))
def test_any_text_is_a_pattern_or_refused(source: str) -> None:
    try:
        found: Node | XPathError = parse(source)
    except XPathError as error:
        found = error
    if isinstance(found, Node):
        assert etree.XPath(text(found)) is not None
    else:
        assert 0 <= found.position <= len(source)


def test_warnings_name_containing_subscriptions() -> None:
    broad = compile_xpath("//price", SCHEMA)
    narrow = compile_xpath("/stock/price", SCHEMA, {"broad": broad})
    assert narrow.warnings == ("contained in subscription broad",)
    assert narrow.boxes == (SCHEMA.space.unbounded,)


# --- Documents from strangers -----------------------------------------------------------------------------------------

LAUGHS = b'<!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]><l>&b;</l>'


@pytest.mark.parametrize(
    "source",
    [
        b"",
        b"no xml",
        b"<a>",
        b"<a></b>",
        b"<a>\xff</a>",
        b"<a>&unknown;</a>",
        LAUGHS,
        b"<?xml version='1.0'?><!-- x --> <!DOCTYPE a SYSTEM 'file:///etc/passwd'><a/>",
        b"\xef\xbb\xbf<!DOCTYPE a><a/>",
        b"<a>" * 65 + b"</a>" * 65,
        b"<a>" * 5000 + b"</a>" * 5000,
        b"<r>" + b"<a/>" * 4096 + b"</r>",
        b"<r " + b" ".join(b"a%d=''" % number for number in range(257)) + b"/>",
        "<?xml version='1.0' encoding='utf-16'?><!DOCTYPE a><a/>".encode("utf-16"),
    ],
)
def test_unsound_documents_match_nothing(source: bytes) -> None:
    document = read(source)
    assert document.fault
    assert not matcher(parse("//*"))(document)


def test_a_doctype_inside_text_is_text() -> None:
    assert not read(b"<a><![CDATA[<!DOCTYPE a>]]></a>").fault


def test_many_comments_before_the_root_take_no_time() -> None:
    assert not read(b"<!-- - -->" * 6000 + b"<a/>").fault


def test_the_text_of_an_element_is_all_that_stands_in_it() -> None:
    document = read(b"<a>1<b>2<c>3</c>4</b>5<!-- x -->6<d/>7</a>")
    texts = {label: document.text_of(number) for number, label in enumerate(document.labels)}
    assert texts == {"a": "1234567", "b": "234", "c": "3", "d": ""}


def test_the_texts_of_a_deep_document_take_no_more_room_than_it_does() -> None:
    """Written out for each element they were sixty times as long, and took a relay half a second to read."""
    deep = b"<a>" * 62 + b"<b>x</b>" * 4000 + b"</a>" * 62
    document = read(deep)
    assert document.text_of(0) == document.text_of(61) == "x" * 4000
    assert len(document.text) == 4000


@pytest.mark.parametrize(
    "declared", ["", "<?xml version='1.0' encoding='UTF-8'?>", "<?xml version='1.0' encoding='latin1'?>"]
)
def test_text_is_unicode_whatever_it_declares(declared: str) -> None:
    assert read(f"{declared}<a>Ω</a>".encode()).text_of(0) == "Ω"


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("application/xml", True),
        ("text/xml; charset=utf-8", True),
        ("image/svg+xml", True),
        ("application/json", False),
    ],
)
def test_what_counts_as_xml(content_type: str, expected: bool) -> None:
    assert is_xml(content_type) is expected


def test_the_document_of_an_event() -> None:
    def of(payload: object, content_type: str = "text/xml") -> Document | None:
        return document_of(encode_body(Body({}, 0, payload, content_type)))

    assert of("<a/>", "text/plain") is None
    assert of("<a/>") == of(b"<a/>") == read(b"<a/>")
    for unsound in ({"a": 1}, 7, None, "<a>"):
        found = of(unsound)
        assert found is not None
        assert found.fault
    assert document_of(b"\xc1") is None


# --- Interests --------------------------------------------------------------------------------------------------------


def interest(xpath: str = "") -> Interest:
    return Interest(SCHEMA.space.unbounded, canonical(xpath) if xpath else "")


def test_interests_of_both_languages() -> None:
    everything, broad, narrow = interest(), interest("//price"), interest("/stock/price")
    assert interest_contains(everything, broad)
    assert interest_contains(broad, narrow)
    assert not interest_contains(broad, everything)
    assert enclosing(broad, narrow) == broad
    assert enclosing(everything, narrow) == everything
    assert intersection(everything, narrow) == narrow
    assert intersection(broad, narrow) == narrow


def test_a_pattern_that_is_not_canonical_is_not_sound() -> None:
    assert is_sound(interest("/a/b"))
    for wrong in ("/a/b", "nonsense", "/a[b][b]", "/a" + "[a" * 340 + "]" * 340):
        assert not is_sound(Interest(SCHEMA.space.unbounded, wrong))
