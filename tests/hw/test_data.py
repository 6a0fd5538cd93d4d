"""Accounts as JSON: what is written is what the schema says, comes back as it was, and damage is told with its place."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hw.random_accounts import accounts
from tilewright.hw import Account, AccountError, Traffic
from tilewright.hw.account import account_schema

SCHEMA = json.loads(files("tilewright.hw").joinpath("account.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
ACCOUNT = Account("k", "toy", {"N": 4}, (Traffic("dram", "A", reads=4, bytes_read=16),))


def test_the_schema_is_a_schema_and_that_of_the_classes() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert account_schema() == SCHEMA


@settings(max_examples=30)
@given(accounts())
def test_what_is_written_is_valid_and_comes_back(account: Account) -> None:
    text = account.to_json()
    VALIDATOR.validate(json.loads(text))
    again = Account.from_json(text)
    assert again == account
    assert again.to_json() == text  # the order of keys is stable


def test_the_schema_refuses_what_is_no_account() -> None:
    good = json.loads(ACCOUNT.to_json())
    for bad in (
        good | {"more": 1},
        good | {"version": 2},
        good | {"sizes": {"N": "4"}},
        {k: good[k] for k in ("kernel",)},
    ):
        assert not VALIDATOR.is_valid(bad)


def damaged(change) -> str:
    data = json.loads(ACCOUNT.to_json())
    change(data)
    return json.dumps(data)


@pytest.mark.parametrize(
    "text, code, said",
    [
        ("{", "account.syntax", "no JSON"),
        ("9" * 5000, "account.syntax", "no JSON"),
        ("[" * 100_000, "account.syntax", "no JSON"),
        ("[]", "account.version", "no account"),
        (damaged(lambda d: d.update(version=99)), "account.version", "version 99"),
        (damaged(lambda d: d.pop("kernel")), "account.bad-value", "kernel is missing"),
        (damaged(lambda d: d.update(sizes={"N": 1.5})), "account.bad-value", "sizes.N is 1.5 and not a whole number"),
        (damaged(lambda d: d.update(sizes=[1])), "account.bad-value", "sizes is [1] and not an object"),
        (damaged(lambda d: d["traffic"][0].update(reads=True)), "account.bad-value", "traffic[0].reads is True"),
        (damaged(lambda d: d["traffic"][0].update(red=1)), "account.bad-value", "traffic[0].red is no field"),
        (damaged(lambda d: d.update(traffic=3)), "account.bad-value", "traffic is 3 and not a list"),
        (damaged(lambda d: d.update(time=[])), "account.bad-value", "time is [] and not an object"),
    ],
)
def test_damage_is_told_with_its_place(text: str, code: str, said: str) -> None:
    with pytest.raises(AccountError) as e:
        Account.from_json(text)
    assert e.value.code == code
    assert said in e.value.message


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(
    st.sampled_from(["kernel", "machine", "traffic", "time", "sizes", "cycles"]), x)))  # fmt: skip
def test_no_json_leads_to_another_error(data) -> None:
    head = {"format": "tilewright-account", "version": 1}
    try:
        Account.from_json(json.dumps(head | data if isinstance(data, dict) else data))
    except AccountError as e:
        assert e.code.startswith("account.")


def test_the_page_names_every_field() -> None:
    page = (Path(__file__).parents[2] / "docs" / "account.md").read_text(encoding="utf-8")
    definitions = {"Account": SCHEMA} | SCHEMA["$defs"]
    missing = [f"{name}.{f}" for name, d in definitions.items() for f in d["properties"] if f"`{f}`" not in page]
    assert not missing
