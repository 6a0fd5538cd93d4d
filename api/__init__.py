"""tilewright: tensor algorithms and their schedules, kept apart."""
