"""Who may do what: acts, the rules that allow them, and the keys that callers present. Pure: opens no file."""
