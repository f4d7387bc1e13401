"""The filter language: what a text means, and what is said of one that means nothing."""

import re
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.model.filter import (
    And,
    Between,
    Compare,
    Constant,
    Expression,
    FilterError,
    In,
    IsNull,
    Or,
    Prefix,
    compiled,
    evaluate,
    matches,
)
from protocols.model.parse import DEPTH_MAX, LENGTH_MAX, parse
from protocols.model.schema import STOCKS, Attribute, Schema
from tests.model.twins import LOOSE, MEANING, Tree, attributes_of, text_of, trees, truth

ODD = Schema(
    (
        Attribute("order", "int", 0, 9),
        Attribute("in", "string"),
        Attribute("a.b", "bool"),
        Attribute('say "x"', "string"),
        Attribute("notable", "bool"),
    )
)


@settings(max_examples=300)
@given(trees(LOOSE), st.lists(attributes_of(LOOSE), min_size=1, max_size=8))
def test_three_valued_logic_follows_the_truth_tables(tree: Tree, events: list[dict[str, Any]]) -> None:
    expression = parse(text_of(tree), LOOSE)
    matcher = compiled(expression)
    for attributes in events:
        verdict = MEANING[truth(tree, attributes)]
        assert evaluate(expression, attributes) is verdict
        assert matches(expression, attributes) is matcher(attributes) is (verdict is True)


@given(trees(LOOSE))
def test_no_negation_is_left_above_a_leaf_and_nothing_is_nested_in_its_own_kind(tree: Tree) -> None:
    def check(expression: Expression) -> None:
        if isinstance(expression, (And, Or)):
            assert len(expression.parts) > 1
            for part in expression.parts:
                assert not isinstance(part, type(expression))
                check(part)

    check(parse(text_of(tree), LOOSE))


WRONG = ["text", 5, 5.5, True]


@given(trees(LOOSE), st.dictionaries(st.sampled_from(LOOSE.names), st.sampled_from(WRONG)))
def test_values_of_the_wrong_type_raise_nothing_and_compare_unknown(tree: Tree, attributes: dict[str, Any]) -> None:
    expression = parse(text_of(tree), LOOSE)
    assert compiled(expression)(attributes) is matches(expression, attributes)


@pytest.mark.parametrize("text", ["x <> 1", "x = 1", "x NOT IN (1)", "x > 1", "x NOT BETWEEN 1 AND 2"])
def test_a_string_in_place_of_a_number_is_unknown(text: str) -> None:
    assert evaluate(parse(text, LOOSE), {"x": "one"}) is None
    assert compiled(parse(text, LOOSE))({"x": "one"}) is False
    assert compiled(parse(f"{text} OR b", LOOSE))({"x": "one", "b": True}) is True


@pytest.mark.parametrize("text", ["s <> 'a'", "s NOT LIKE 'a%'", "s LIKE '%'", "s NOT IN ('a')"])
def test_a_number_in_place_of_a_string_is_unknown(text: str) -> None:
    assert evaluate(parse(text, LOOSE), {"s": 1}) is None
    assert compiled(parse(text, LOOSE))({"s": 1}) is False


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("price=8.30", Compare("price", "=", 8.3)),
        ("price != 8", Compare("price", "<>", 8.0)),
        ("8.30 < price", Compare("price", ">", 8.3)),
        ("8 >= price", Compare("price", "<=", 8.0)),
        ("price > -.5e1", Compare("price", ">", -5.0)),
        ("price > +1.", Compare("price", ">", 1.0)),
        ("symbol = 'it''s'", Compare("symbol", "=", "it's")),
        ("symbol LIKE 'OT%'", Prefix("symbol", "OT")),
        ("symbol LIKE 'OTE'", Compare("symbol", "=", "OTE")),
        ("symbol not like 'OTE'", Compare("symbol", "<>", "OTE")),
        ("symbol LIKE '5!%%' ESCAPE '!'", Prefix("symbol", "5%")),
        ("symbol LIKE '%'", Prefix("symbol", "")),
        ("price Between 1 And 2", Between("price", 1.0, 2.0)),
        ("NOT price BETWEEN 1 AND 2", Between("price", 1.0, 2.0, True, 4)),
        ("price not between 1 and 2", Between("price", 1.0, 2.0, True)),
        ("NOT price NOT IN (1,2)", In("price", (1.0, 2.0), False, 4)),
        ("price is not null", IsNull("price", True)),
        ("NOT NOT NOT price IS NULL", IsNull("price", True, 12)),
        ("true", Constant(True)),
        ("NOT TRUE", Constant(False, 4)),
        (" \n\tTRUE\r\n", Constant(True, 3)),
        ("NOT (price < 1)", Compare("price", ">=", 1.0, 5)),
    ],
)
def test_what_a_text_means(text: str, expression: Expression) -> None:
    assert parse(text, STOCKS) == expression


def test_and_binds_before_or_and_not_before_both() -> None:
    one, two, three = (Compare("price", "=", float(n)) for n in (1, 2, 3))
    parsed = parse("price=1 OR price=2 AND NOT price=3", STOCKS)
    assert isinstance(parsed, Or)
    assert parsed.parts[0] == one
    assert isinstance(parsed.parts[1], And)
    assert [part.operator for part in parsed.parts[1].parts if isinstance(part, Compare)] == ["=", "<>"]
    assert {two.value, three.value} == {part.value for part in parsed.parts[1].parts if isinstance(part, Compare)}


def test_keywords_in_any_case_and_as_whole_words() -> None:
    upper = "NOT price BETWEEN 1 AND 2 OR symbol IN ('a') AND low IS NOT NULL OR symbol LIKE 'x' ESCAPE '!' OR TRUE"
    assert parse(upper, STOCKS) == parse(re.sub("[A-Z]+", lambda word: word.group().lower(), upper), STOCKS)
    for text in ("price = 1 ORlow = 1", "price = 1 ANDlow = 1", "price INlow (1)", "price ISNULL", "NOTprice = 1"):
        with pytest.raises(FilterError):
            parse(text, STOCKS)


def test_names() -> None:
    assert parse("order > 5", ODD) == Compare("order", ">", 5)  # OR is only its beginning
    assert parse("\"in\" = 'x'", ODD) == Compare("in", "=", "x")
    assert parse("a.b", ODD) == Compare("a.b", "=", True)
    assert parse("NOT a.b", ODD) == Compare("a.b", "<>", True, 4)
    assert parse("FALSE = a.b", ODD) == Compare("a.b", "=", False)
    assert parse('"say ""x""" IN (\'y\')', ODD) == In('say "x"', ("y",))
    assert parse("notable", ODD) == Compare("notable", "=", True)


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("", 0, "empty"),
        ("  \n", 0, "empty"),
        ("pric > 5", 0, "unknown attribute 'pric'; did you mean 'price'?"),
        ("symbol = 'a' AND PRICE > 5", 17, "did you mean 'price'"),
        ("colour = 5", 0, "the schema has exchange, symbol, price"),
        ("price > 'a'", 8, "price is a float and cannot be compared with a string"),
        ("symbol = 5", 9, "single quotes, '5'"),
        ("symbol = TRUE", 9, "cannot be compared with a bool"),
        ("price IN (1, 'b')", 13, "cannot be compared with a string"),
        ("price = NULL", 8, "IS NULL or IS NOT NULL"),
        ("price", 0, "compare it with a value"),
        ("5", 0, "a value alone"),
        ("5 = 5", 0, "one side must be an attribute"),
        ("5 IN (5)", 0, "an attribute stands before IN"),
        ("'x' IS NULL", 0, "an attribute stands before IS NULL"),
        ("price > high", 8, "comparisons between attributes"),
        ("price BETWEEN low AND 5", 14, "comparisons between attributes"),
        ("symbol = OTE", 9, "strings stand in single quotes"),
        ("price + 1 > 5", 6, "arithmetic"),
        ("price > 5-3", 9, "arithmetic"),
        ("price > 2 * 3", 10, "arithmetic"),
        ("symbol || 'a' = 'b'", 7, "arithmetic"),
        ("abs(price) > 5", 3, "functions"),
        ("price > abs(5)", 11, "functions"),
        ("symbol LIKE 'a%b'", 12, "only one % at the end"),
        ("symbol LIKE '%b'", 12, "only one % at the end"),
        ("symbol LIKE 'a_'", 12, "wildcard _"),
        ("symbol LIKE 'a!b' ESCAPE '!'", 12, "after the escape character"),
        ("symbol LIKE 'a!' ESCAPE '!'", 12, "after the escape character"),
        ("symbol LIKE 'a' ESCAPE 'xy'", 23, "one character"),
        ("symbol LIKE 5", 12, "LIKE takes strings"),
        ("price LIKE 'a%'", 0, "LIKE needs a string"),
        ("symbol = 'abc", 9, "string is not closed"),
        ('"price > 5', 0, "quoted name is not closed"),
        ("price >", 7, "expected a value, found the end"),
        ("price > 5 AND", 13, "expected a condition, found the end"),
        ("price > 5 AND AND low = 1", 14, "AND cannot stand here"),
        ("price > 5 extra", 10, "expected the end, AND or OR, found 'extra'"),
        ("price > 5 ;", 10, "expected the end, AND or OR, found ';'"),
        ("(price > 5", 10, r"expected '\)'"),
        ("price > 5)", 9, "closes nothing"),
        ("price IN ()", 10, "expected a value"),
        ("price NOT > 5", 10, "expected BETWEEN, IN or LIKE"),
        ("price IS 5", 9, "expected NOT or NULL"),
        ("price = 1e999", 8, "too large"),
        ("price = 9007199254740992", 8, "2.53-1"),
        ("price = " + "9" * 9_999, 8, "2.53-1"),
        ("symbol = 'Ω\U0001f600' AND \ud800", 18, "lone surrogate"),
        ("symbol = '\U0001f600' AND pric = 1", 17, "did you mean 'price'"),
        ("price > ٣", 8, "expected a value"),
        ("symbol = '" + "é" * 513 + "'", 9, "at most 1024 bytes"),
    ],
)
def test_each_fault_is_named_and_placed(text: str, position: int, reason: str) -> None:
    with pytest.raises(FilterError, match=reason) as caught:
        parse(text, STOCKS)
    assert caught.value.position == position
    assert "\n" not in caught.value.reason


@pytest.mark.parametrize("text", ["a.b < TRUE", "a.b BETWEEN FALSE AND TRUE", "TRUE >= a.b"])
def test_booleans_have_no_order(text: str) -> None:
    with pytest.raises(FilterError, match="no order"):
        parse(text, ODD)


def test_nesting_is_limited() -> None:
    def nested(depth: int) -> str:
        text = "price = 1"
        for level in range(depth):
            text = f"({text}) {'AND' if level % 2 else 'OR'} low = 1"
        return text

    parse(nested(DEPTH_MAX), STOCKS)
    with pytest.raises(FilterError, match="nested more than 64 deep"):
        parse(nested(DEPTH_MAX + 1), STOCKS)


def test_no_text_exhausts_the_stack() -> None:
    parse("(" * 8_000 + "TRUE" + ")" * 8_000, STOCKS)
    parse("NOT " * 4_000 + "TRUE", STOCKS)
    parse(" OR ".join(["price=1"] * 1_400), STOCKS)
    for text in ("(" * LENGTH_MAX, "NOT(" * 4_000, "'" * 15_001, "price IN (" + "1," * 8_000):
        with pytest.raises(FilterError):
            parse(text, STOCKS)
    with pytest.raises(FilterError, match="16384 are allowed"):
        parse(" " * (LENGTH_MAX + 1), STOCKS)


WORDS = (
    "price symbol AND or NOT ( ) = < <> ! 1 -2.5 'a' ' \" IN BETWEEN LIKE 'a%' ESCAPE IS NULL TRUE , . % \0 é 1e9 --"
)


@settings(max_examples=300)
@given(
    st.lists(
        st.sampled_from(WORDS.split()),
        max_size=12,
    ),
    st.sampled_from(["", " "]),
)
def test_any_text_is_an_expression_or_a_placed_error(words: list[str], joint: str) -> None:
    text = joint.join(words)
    fault = None
    try:
        parse(text, STOCKS)
    except FilterError as error:
        fault = error
    assert fault is None or (fault.reason and 0 <= fault.position <= len(text))


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, pkgutil, importlib, protocols.model as m\n"
        "for each in pkgutil.iter_modules(m.__path__): importlib.import_module('protocols.model.' + each.name)\n"
        "assert 'protocols.model.lint' in sys.modules\n"
        "sys.exit('lark' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
