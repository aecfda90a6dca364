"""The Produces of clients to topics with delays: read, split between target and buffer, and answered."""
