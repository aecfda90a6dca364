"""Which rule allows what, and what a file of rules cannot hold."""

import pytest

from delayline.access.acts import Act
from delayline.access.rules import parse_rules
from delayline.errors import ConfigError

RULES = """
# who sends
[[rule]]
principals = ["orders-service", "team-a/*"]
topics = ["orders.*", "mails"]
acts = ["send", "cancel"]

[[ rule ]]
principals = ["*"]
acts = ["read"]
"""


def place(principal: str, act: Act, topic: str | None, text: str = RULES) -> str | None:
    rule = parse_rules(text, "rules.toml").deciding(principal, act, topic)
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
    ],
)
def test_the_first_rule_that_allows_it_decides(
    principal: str, act: Act, topic: str | None, decides: str | None
) -> None:
    assert place(principal, act, topic) == decides


def test_without_a_rule_nothing_is_allowed() -> None:
    assert all(place("ann", act, topic, "") is None for act in Act for topic in ("orders", None))


def test_of_a_rule_in_an_array_its_number_is_known() -> None:
    text = 'rule = [{principals = ["eve"], acts = ["send"]}, {principals = ["ann"], acts = ["send"]}]'
    assert place("ann", Act.SEND, "orders", text) == "rules.toml, rule 2"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[[rule]", "rules.toml is not TOML: "),
        ("[[rule]]\nprincipals = ['ann']", "missing required field `acts`"),
        ("[[rule]]\nacts = ['send']", "missing required field `principals`"),
        ("[[rule]]\nprincipals = []\nacts = ['send']", "length >= 1"),
        ("[[rule]]\nprincipals = ['ann']\nacts = ['sned']", "'sned'"),
        ("[[rule]]\nprincipals = ['ann']\nacts = []", "length >= 1"),
        ("[[rule]]\nprincipals = ['']\nacts = ['send']", "length >= 1"),
        ("[[rule]]\nprincipals = 'ann'\nacts = ['send']", "expected `array`"),
        ("[[rule]]\nprincipals = ['ann']\nacts = ['send']\ntopic = ['orders']", "unknown field `topic`"),
        ("[[rules]]\nprincipals = ['ann']\nacts = ['send']", "unknown field `rules`"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_rules(text, "rules.toml")
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("rules.toml")
