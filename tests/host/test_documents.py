"""JSON from a host that is broken or hostile: a sentence, never an exception of another kind, never a wrong value."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from pydantic import Field

from fleet.host.documents import DocumentError, parse_document
from fleet.model.base import Record


class Inner(Record):
    name: str = ""


class Sample(Record):
    count: int
    ratio: float = 0.0
    inner: Inner = Inner()
    words: tuple[str, ...] = ()
    table: Mapping[str, str] = Field(default_factory=dict)


def test_a_good_document_is_read_and_what_is_newer_is_left_out() -> None:
    sample = parse_document('{"count": 3, "ratio": 2, "words": ["é☃"], "newer": {"a": []}}'.encode(), Sample)

    assert sample == Sample(count=3, ratio=2.0, words=("é☃",))


def test_the_numbers_of_64_bits_are_read() -> None:
    assert parse_document(b'{"count": 9223372036854775807}', Sample).count == 2**63 - 1
    assert parse_document(b'{"count": -9223372036854775807}', Sample).count == 1 - 2**63


HOSTILE = {
    "nan": (b'{"count": 1, "ratio": NaN}', "NaN is not a number"),
    "infinity": (b'{"count": 1, "ratio": -Infinity}', "-Infinity is not a number"),
    "overflow": (b'{"count": 1, "ratio": 1e999}', "1e999 is too large"),
    "overflow_elsewhere": (b'{"count": 1, "newer": [1e999]}', "1e999 is too large"),
    "deep_list": (b'{"count": 1, "newer": ' + b"[" * 100_000, "nested too deep"),
    "deep_and_closed": (b'{"count": 1, "newer": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deep"),
    "deep_objects": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deep"),
    "long_integer": (b'{"count": ' + b"9" * 5000 + b"}", "99999999999999999999… is too large"),
    "two_to_63": (b'{"count": 9223372036854775808}', "9223372036854775808… is too large"),
    "duplicate_key": (b'{"count": 1, "count": 2}', "a key stands twice"),
    "duplicate_key_below": (b'{"count": 1, "inner": {"name": "a", "name": "b"}}', "a key stands twice"),
    "lone_surrogate": (b'{"count": 1, "words": ["\\ud800"]}', "hex escape"),
    "lone_surrogate_key": (b'{"count": 1, "table": {"\\udc00": ""}}', "hex escape"),
    "bom": (b'\xef\xbb\xbf{"count": 1}', "BOM"),
    "empty": (b"", "empty"),
    "blank": (b" \n", "empty"),
    "zeros": (b"\0" * 4096, "Expecting value"),
    "cut_off": (b'{"count": 1, "rat', "Unterminated string"),
    "more_after": (b'{"count": 1}{"count": 2}', "Extra data"),
    "not_utf8": (b'{"count": 1, "words": ["\xff"]}', "not UTF-8"),
    "utf16": ('{"count": 1}'.encode("utf-16"), "not UTF-8"),
    "not_an_object": (b"[1]", "document:"),
    "null": (b"null", "document:"),
    "missing": (b'{"ratio": 1}', "count: Field required"),
    "boolean_for_number": (b'{"count": true}', "count:"),
    "text_for_number": (b'{"count": "1"}', "count:"),
    "fraction_for_count": (b'{"count": 1.5}', "count:"),
    "number_for_text": (b'{"count": 1, "inner": {"name": 7}}', "inner.name:"),
    "null_for_number": (b'{"count": null}', "count:"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_not_the_document_is_refused_with_a_sentence(name: str) -> None:
    data, says = HOSTILE[name]

    with pytest.raises(DocumentError) as refused:
        parse_document(data, Sample)

    said = str(refused.value)
    assert says in said
    assert len(said) < 300, "it is told on one line"
    assert "\n" not in said
