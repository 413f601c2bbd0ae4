"""The driver of dialogues, the only part of `protocols` that waits."""
