"""Bodies, as they come and as they go."""
