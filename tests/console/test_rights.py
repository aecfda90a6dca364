"""Principal, act, topic in the console: what a person presses or looks at is allowed by one act."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pytest
from playwright.sync_api import Page, expect

from delayline.access.acts import Act
from tests.acceptance.asking import wait_for
from tests.acceptance.keyed import ROOT, KeyedServer
from tests.console.conftest import OpenPage
from tests.fault.server import http_client
from tests.unit.api.access.held import allowing

Step = Callable[[Page], None]


def press(name: str) -> Step:
    return lambda page: page.get_by_role("button", name=name).last.click()


def fill(label: str, text: str) -> Step:
    return lambda page: page.get_by_label(label, exact=True).fill(text)


def tick(label: str) -> Step:
    return lambda page: page.get_by_label(label).check()


class Doing(NamedTuple):
    """What a person does on a page, in steps, and what the page shows once it is done."""

    act: str
    place: str
    steps: Sequence[Step]
    done: str


MESSAGE, TOPIC = "#/messages/{id}", "#/topics/orders"
NAME = fill("Type the topic's name to confirm", "orders")
DOINGS = {
    "look at a message": Doing("read", MESSAGE, [], "pending"),
    "look at a topic": Doing("read", TOPIC, [], "running"),
    "see what it carries": Doing("payload", MESSAGE, [], "hello"),
    "send": Doing("send", "#/send?topic=orders", [fill("Value", "1"), press("Send")], "accepted"),
    "reschedule": Doing("reschedule", MESSAGE, [press("Reschedule"), press("Reschedule")], "Version1"),
    "pause": Doing("control", TOPIC, [press("Pause"), press("Pause the topic")], "orders is paused."),
    "resume": Doing("control", TOPIC, [press("Resume"), press("Resume the topic")], "orders goes on."),
    "cancel": Doing("cancel", MESSAGE, [press("Cancel"), press("Cancel the message")], "Cancelled"),
    "deliver": Doing("reschedule", MESSAGE, [press("Deliver now"), press("Deliver now")], "on its way"),
    "cancel all": Doing(
        "cancel", "#/messages?topic=orders", [press("Cancel all"), press("Cancel them")], "No message matches."
    ),
    "purge": Doing("control", TOPIC, [press("Purge"), NAME, press("Purge the topic")], "cancelled."),
    "delete": Doing(
        "topics",
        TOPIC,
        [press("Delete"), NAME, tick("Cancel what still waits"), press("Delete the topic")],
        "deleted",
    ),
}
"""In this order: each finds what it needs."""

ACTS = sorted({doing.act for doing in DOINGS.values()})
SESSION = "delayline-session"


RULES = "".join(
    allowing(f"only-{act}", act, "read") + allowing(f"but-{act}", *(one for one in Act if one != act)) for act in ACTS
)


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyedServer]:
    """Its principals may do one act and look, or all but one act."""
    principals = [f"{kind}-{act}" for act in ACTS for kind in ("only", "but")]
    keyed = KeyedServer(tmp_path_factory.mktemp("keyed"), principals, RULES)
    keyed.start()
    keyed.wait_ready()
    yield keyed
    keyed.kill()


def sent(keyed: KeyedServer) -> str:
    """The id of a message that waits."""
    headers = keyed.shown_by(ROOT)
    with http_client(20) as http:
        body = {"value": "hello", "schedule": {"delay": "1h"}}
        message_id = http.post(f"{keyed.url}/v1/topics/orders/messages", json=body, headers=headers).json()[
            "message_id"
        ]
        url = f"{keyed.url}/v1/messages/{message_id}"
        wait_for(lambda: http.get(url, headers=headers).json().get("state"), lambda state: state == "pending")
    return message_id


def log_in(keyed: KeyedServer, page: Page, principal: str) -> None:
    """As the page does it, without its form."""
    headers = {**keyed.shown_by(principal), "delayline-request": "1"}
    with http_client(20) as http:
        session = http.post(f"{keyed.url}/v1/session", headers=headers).cookies[SESSION]
    page.context.add_cookies([{"name": SESSION, "value": session, "url": keyed.url}])


OFTEN = ("see what it carries", "cancel", "purge")
"""The others only among all tests."""


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=() if one in OFTEN else pytest.mark.thorough) for one in DOINGS]
)
def test_what_a_person_does_is_allowed_by_its_act_alone(open_page: OpenPage, keyed: KeyedServer, name: str) -> None:
    doing = DOINGS[name]
    place = doing.place.format(id=sent(keyed))
    page = open_page(url=keyed.url)
    for who in (f"but-{doing.act}", f"only-{doing.act}"):
        log_in(keyed, page, who)
        page.goto("about:blank")
        page.goto(f"{keyed.url}/{place}")
        expect(page.locator("#session")).to_contain_text(who)
        page.wait_for_load_state("networkidle")
        refusal = f"{who} has no right to `{doing.act}` of topic 'orders'"
        for step in doing.steps:
            if page.get_by_text(refusal).count() == 0:
                step(page)
        if who.startswith("but"):
            expect(page.locator("body")).to_contain_text(refusal)
        else:
            expect(page.locator("body")).to_contain_text(doing.done)
            expect(page.locator("body")).not_to_contain_text(f"no right to `{doing.act}`")
