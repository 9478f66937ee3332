"""The experiment: what is launched together, its record, going on with it, observing and waiting for it."""
