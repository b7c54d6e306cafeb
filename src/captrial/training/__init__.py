"""The loop, losses, rewards, schedules, attention supervision."""
