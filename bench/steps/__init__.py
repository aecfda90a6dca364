"""Single steps of a record that `bench.floors` times."""
