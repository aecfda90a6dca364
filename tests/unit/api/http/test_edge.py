"""What holds for every request: ids, problems of the framework, headers that are not built, our own errors."""

from typing import Any

import httpx
import pytest

from tests.unit.api.in_memory import MESSAGES, Api, pointers, problem


def test_a_request_id_comes_back() -> None:
    answer = Api().get("/v1/info", headers={"x-request-id": "req-42/a"})
    assert answer.headers["x-request-id"] == "req-42/a"


@pytest.mark.parametrize("given", ["with space", "x" * 129, "tab\there"])
def test_a_request_id_that_could_break_a_log_line_is_replaced(given: str) -> None:
    answer = Api().get("/v1/info", headers={"x-request-id": given})
    assert answer.headers["x-request-id"] not in ("", given)


def test_every_request_without_an_id_gets_one_of_its_own() -> None:
    api = Api()
    assert api.get("/v1/info").headers["x-request-id"] != api.get("/v1/info").headers["x-request-id"]


@pytest.mark.parametrize("path", ["/v1", "/v2/topics", "/v1/topics/", "/v1/topics/a/b/c", "/docs", "/redoc"])
def test_an_unknown_path_is_a_problem(path: str) -> None:
    answer = Api().get(path)
    assert problem(answer) == (404, "not-found")
    assert answer.json()["instance"] == path


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", MESSAGES, "POST"),
        ("DELETE", "/v1/topics", "GET, HEAD, POST"),
        ("PUT", "/v1/messages/x", "DELETE, GET, HEAD, PATCH"),
        ("POST", "/openapi.json", "GET, HEAD"),
    ],
)
def test_a_wrong_method_is_a_problem_that_names_the_right_ones(method: str, path: str, allow: str) -> None:
    answer = Api().request(method, path)
    assert problem(answer) == (405, "method-not-allowed")
    assert answer.headers["allow"] == allow


@pytest.mark.parametrize(
    ("name", "method", "path"),
    [
        ("Idempotency-Key", "GET", "/v1/messages/orders.0.1.2"),
        ("If-Match", "POST", MESSAGES),
        ("If-Match", "GET", "/v1/messages/orders.0.1.2"),
        ("If-Match", "POST", "/v1/messages/orders.0.1.2:deliver/more"),
    ],
)
def test_a_request_header_that_means_nothing_is_refused_and_not_ignored(name: str, method: str, path: str) -> None:
    api = Api()
    answer = api.request(method, path, json={"value": 1}, headers={name: "1"})
    assert problem(answer) == (400, "not-supported")
    assert name in answer.json()["detail"]
    assert api.queue.topics() == []


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "application/json; charset=latin-1", ""],
)
def test_a_body_that_is_not_declared_as_json_is_refused(content_type: str) -> None:
    answer = Api().request("POST", MESSAGES, content=b"{}", headers={"content-type": content_type})
    assert problem(answer) == (415, "unsupported-media-type")


@pytest.mark.parametrize("name", ["idempotency-key", "content-type"])
def test_a_request_header_of_which_one_would_be_heeded_is_refused_when_given_twice(name: str) -> None:
    body = b'{"value": 1, "schedule": {"delay": "1h"}}'
    headers = [("content-type", "application/json"), ("idempotency-key", "a"), (name, "application/json")]
    answer = Api().request("POST", MESSAGES, content=body, headers=headers)
    assert problem(answer) == (400, "invalid-request")
    assert "given 2 times" in answer.json()["detail"]


def test_a_body_without_a_type_is_refused() -> None:
    assert problem(Api().request("POST", MESSAGES, content=b"{}")) == (415, "unsupported-media-type")


@pytest.mark.parametrize(
    "content_type", ["application/json", "Application/JSON; charset=UTF-8", 'application/vnd.a+json;charset="utf-8"']
)
def test_json_may_be_called_by_any_of_its_names(content_type: str) -> None:
    answer = Api().request("POST", MESSAGES, content=b"{}", headers={"content-type": content_type})
    assert answer.status_code == 201


def test_a_compressed_body_is_refused() -> None:
    answer = Api().send_text("{}", **{"content-encoding": "gzip"})
    assert problem(answer) == (415, "unsupported-media-type")


def test_a_parameter_that_no_route_knows_is_refused_everywhere() -> None:
    api = Api()
    for method, path in (
        ("POST", MESSAGES),
        ("GET", "/v1/topics"),
        ("GET", "/v1/info"),
        ("GET", "/v1/messages/a.0.1.2"),
    ):
        answer = api.request(method, path, params={"delay": "5s"}, json={"value": 1})
        assert problem(answer) == (400, "invalid-request")
        assert pointers(answer) == [("?delay", "unknown-parameter")]


def test_an_error_of_ours_is_a_500_that_reveals_nothing_and_a_log_line_with_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    api = Api()

    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("a secret detail")

    api.queue.append_each = broken
    answer = api.send({"value": 1})
    assert problem(answer) == (500, "internal-error")
    assert "secret" not in answer.text
    logged = capsys.readouterr()
    assert "a secret detail" in logged.out + logged.err
    assert answer.headers["x-request-id"] in logged.out + logged.err


def test_problems_are_counted_by_type() -> None:
    api = Api()
    api.get("/nowhere")
    assert api.metric("delayline_http_problems_total", type="not-found") == 1


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_pages_of_other_sites_cannot_make_a_browser_act_here(site: str) -> None:
    api = Api()
    path = "/v1/messages/orders.0.0.1767225630000:deliver"
    answer = api.request("POST", path, headers={"sec-fetch-site": site})
    assert problem(answer) == (403, "forbidden")
    assert api.get("/v1/info", headers={"sec-fetch-site": site}).status_code == 200


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_our_own_page_may_act(site: str) -> None:
    answer = Api().request("POST", MESSAGES, json={"value": 1}, headers={"sec-fetch-site": site})
    assert answer.status_code == 201


ACTS = ["/v1/messages/orders.0.0.1767225630000:deliver", *(f"/v1/topics/orders:{act}" for act in ("pause", "purge"))]
FORMS = ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain"]


def bare(api: Api, method: str, path: str, **headers: str) -> Any:
    """A request with these headers alone; `host` unless it is given."""

    async def ask(http: httpx.AsyncClient) -> httpx.Response:
        http.headers.clear()
        return await http.request(method, path, headers={"host": "api", **headers})

    return api.run(ask)


@pytest.mark.parametrize("path", ACTS)
@pytest.mark.parametrize("form", FORMS)
def test_a_form_is_refused_also_where_the_browser_does_not_state_whose_it_is(path: str, form: str) -> None:
    api = Api()
    api.queue.ensure_topic("orders")
    answer = bare(api, "POST", path, **{"content-type": form})
    assert problem(answer) == (415, "unsupported-media-type")
    assert problem(bare(api, "POST", path)) == (403, "forbidden")
    assert bare(api, "POST", path, **{"delayline-request": "1"}).status_code not in (403, 415)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://api:81", "file://", "", "https://api:80"])
def test_a_page_of_another_origin_is_refused(origin: str) -> None:
    assert problem(bare(Api(), "GET", "/v1/info", origin=origin)) == (403, "forbidden")


@pytest.mark.parametrize(
    ("host", "origin"), [("api", "http://api"), ("api", "https://api"), ("Api:81", "http://api:81")]
)
def test_a_page_of_our_own_origin_is_answered(host: str, origin: str) -> None:
    assert bare(Api(), "GET", "/v1/info", host=host, origin=origin).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "api.evil.example", "", "a b", "[::1"],
)
def test_a_name_that_is_not_ours_is_refused(host: str) -> None:
    answer = bare(Api(), "GET", "/v1/info", host=host)
    assert problem(answer) == (421, "misdirected-request")
    assert problem(bare(Api(), "GET", "/metrics", host=host)) == (421, "misdirected-request")
    assert bare(Api(), "GET", "/healthz", host=host).status_code == 200


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "10.1.2.3", "[::1]:8080", "a.shop.svc"]
)
def test_names_of_ours_and_addresses_are_answered(host: str) -> None:
    assert bare(Api(hosts=("*.shop.svc",)), "GET", "/v1/info", host=host).status_code == 200
