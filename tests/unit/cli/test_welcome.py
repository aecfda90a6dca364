"""What a process prints about itself when it has started: nothing of what another one does."""

from pathlib import Path

from cli.serve_commands import api_welcome, serve_welcome
from delayline.config import load_settings

ENVIRON = {
    "DELAYLINE_PROXY__KAFKA__PORT": "19092",
    "DELAYLINE_MQ__KIND": "kafka",
    "DELAYLINE_MQ__BOOTSTRAP_SERVERS": "k1:9092",
}
SETTINGS = load_settings(None, {}, ENVIRON, Path("/"))


def test_only_the_process_that_listens_for_kafka_clients_prints_its_address() -> None:
    assert "bootstrap.servers=127.0.0.1:19092" in serve_welcome(SETTINGS, "http://127.0.0.1:8080", "Kafka")
    assert "bootstrap.servers" not in api_welcome(SETTINGS, "http://127.0.0.1:8080", "Kafka")


def test_where_keys_are_needed_the_examples_show_one() -> None:
    settings = SETTINGS.model_copy(update={"api": SETTINGS.api.model_copy(update={"auth": "keys"})})
    assert '-H "authorization: Bearer $DELAYLINE_KEY"' in api_welcome(settings, "https://127.0.0.1:8080", "Kafka")
    assert "authorization" not in api_welcome(SETTINGS, "http://127.0.0.1:8080", "Kafka")
