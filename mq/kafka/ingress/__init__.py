"""What the frontends append and read."""
