"""Which rule allows what, and what a file of rules cannot hold."""

import pytest

from delayline.access.acts import Act
from delayline.access.rules import AccessRules, parse_rules
from delayline.errors import ConfigError

RULES = """
# who sends
[[rule]]
principals = ["orders-service", "team-a/*"]
topics = ["orders.*", "mails"]
acts = ["send", "cancel"]

[[ rule ]]
principals = ["*"]
topics = ["*"]
acts = ["read"]

[[rule]]
principals = ["[a]nn"]
topics = ["o[!x]ders", "two\\nlines"]
acts = ["control"]
"""


def place(principal: str, act: Act, topic: str | None, text: str = RULES) -> str | None:
    rule = parse_rules(text, "rules.toml").deciding((principal,), act, topic)
    return None if rule is None else rule.place


@pytest.mark.parametrize(
    ("principal", "act", "topic", "decides"),
    [
        ("orders-service", Act.SEND, "orders.eu", "rules.toml:3"),
        ("team-a/ann", Act.CANCEL, "mails", "rules.toml:3"),
        ("team-a", Act.CANCEL, "mails", None),
        ("orders-service", Act.SEND, "orders", None),
        ("orders-service", Act.SEND, "Orders.eu", None),
        ("orders-service", Act.SEND, "xorders.eu", None),
        ("orders-service", Act.RESCHEDULE, "mails", None),
        ("orders-service", Act.SEND, None, None),
        ("orders-service", Act.READ, "mails", "rules.toml:8"),
        ("eve", Act.READ, "mails", "rules.toml:8"),
        ("eve", Act.READ, None, "rules.toml:8"),
        ("eve", Act.PAYLOAD, "mails", None),
        ("[a]nn", Act.CONTROL, "o[!x]ders", "rules.toml:13"),
        ("ann", Act.CONTROL, "o[!x]ders", None),
        ("[a]nn", Act.CONTROL, "orders", None),
        ("[a]nn", Act.CONTROL, "two", None),
    ],
)
def test_the_first_rule_that_allows_it_decides(
    principal: str, act: Act, topic: str | None, decides: str | None
) -> None:
    assert place(principal, act, topic) == decides


def test_without_a_rule_nothing_is_allowed() -> None:
    rules = AccessRules([])
    assert all(rules.deciding(("ann",), act, topic) is None for act in Act for topic in ("orders", None))


def test_no_part_of_a_rule_is_one() -> None:
    """A file that is just being written: cut anywhere, it has whole rules or is refused."""
    one = '[[rule]]\nprincipals = ["ann"]\nacts = ["send"]\ntopics = ["orders"]\n'
    for end in range(len(one)):
        try:
            rules = parse_rules(one[:end], "rules.toml")
        except ConfigError:
            continue
        assert rules.deciding(("ann",), Act.SEND, "orders") is not None, one[:end]
        assert rules.deciding(("ann",), Act.SEND, "mails") is None, one[:end]


def test_of_a_rule_in_an_array_its_number_is_known() -> None:
    eve, ann = (f'{{principals = ["{one}"], topics = ["*"], acts = ["send"]}}' for one in ("eve", "ann"))
    text = f"rule = [{eve}, {ann}]"
    assert place("ann", Act.SEND, "orders", text) == "rules.toml, rule 2"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "missing required field `rule`"),
        ("# nothing", "missing required field `rule`"),
        ("rule = []", "length >= 1"),
        ("[[rule]", "rules.toml is not TOML: "),
        ("[[rule]]\nprincipals = ['ann']\nacts = ['send']", "missing required field `topics`"),
        ("[[rule]]\ntopics = ['t']\nprincipals = ['ann']", "missing required field `acts`"),
        ("[[rule]]\ntopics = ['t']\nacts = ['send']", "missing required field `principals`"),
        ("[[rule]]\ntopics = ['t']\nprincipals = []\nacts = ['send']", "length >= 1"),
        ("[[rule]]\ntopics = ['t']\nprincipals = ['ann']\nacts = ['sned']", "'sned'"),
        ("[[rule]]\ntopics = ['t']\nprincipals = ['ann']\nacts = []", "length >= 1"),
        ("[[rule]]\ntopics = ['t']\nprincipals = ['']\nacts = ['send']", "length >= 1"),
        ("[[rule]]\ntopics = ['t']\nprincipals = 'ann'\nacts = ['send']", "expected `array`"),
        (
            "[[rule]]\ntopics = ['t']\nprincipals = ['ann']\nacts = ['send']\ntopic = ['orders']",
            "unknown field `topic`",
        ),
        ("[[rules]]\nprincipals = ['ann']\nacts = ['send']", "unknown field `rules`"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_rules(text, "rules.toml")
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("rules.toml")


def allows(principals: str, *names: str) -> bool:
    text = f'[[rule]]\nprincipals = ["{principals}"]\ntopics = ["*"]\nacts = ["send"]\n'
    return parse_rules(text, "rules.toml").deciding(names, Act.SEND, "orders") is not None


def test_nothing_but_a_star_alone_stands_for_the_first_colon_of_a_name() -> None:
    """Users of an identity provider, who may choose their names, are named with one."""
    name = "oidc:team:ann"
    assert all(allows(one, name) for one in ("*", name, "oidc:*", "oidc:team*ann", "oidc:team?ann", "o*:*", "*:*"))
    assert not any(
        allows(one, name) for one in ("**", "*ann", "?*", "oidc*", "oidc?team?ann", "*team:ann", "oidc-*:*")
    )


def test_a_rule_allows_what_it_allows_to_any_of_a_callers_names() -> None:
    assert allows("oidc-group:ops", "oidc:ann", "oidc-group:dev", "oidc-group:ops")
    assert not allows("oidc-group:ops", "oidc:ann", "oidc-group:dev")
    assert not allows("oidc-group:ops", "oidc:ops")
