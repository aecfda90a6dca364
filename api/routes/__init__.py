"""One file per group of paths. Routes read the request, ask the rooms they were handed, and answer; they raise what
goes wrong (`api.http.problems`)."""
