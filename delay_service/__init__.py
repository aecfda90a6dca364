"""Ingest, dispatch, takeover: what turns a buffer topic into deliveries that are due."""
