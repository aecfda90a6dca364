"""What the benches of the reconcile job share: a Spark whose CPU and memory are measured, and the same in DuckDB."""
