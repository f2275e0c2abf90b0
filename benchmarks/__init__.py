"""Programs that measure. None of them runs in `make test`."""
