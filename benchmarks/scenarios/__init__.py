"""One file a scenario: what is asked of the peers, and what comes of it."""
