"""The wire proxies: clients keep their own protocol and library, and gain the delay."""
